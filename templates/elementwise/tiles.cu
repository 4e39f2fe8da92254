// y[i] = f(x0[i], x1[i], ...) where inputs step fastest along another axis than the outputs: the outputs' inner axis has
// `columns` elements, that of the inputs which are "staged" `rows`; what other axes there are, are batches.
// Launch: a block for each tile of << tile >> by << tile >> elements, a batch's tiles one after another. Staged inputs are
// read along their own axis and turned in shared memory: a tile of each. A tile that is whole is moved by packs.
<% from "elementwise/operands.cuh" import parameters, memory, constants, computed with context %>
<% include "prelude/math.cuh" %>
<% include "elementwise/operands.cuh" %>
<% set operands = inputs + outputs %>
<% set staged = inputs | selectattr("place", "equalto", "staged") | list %>
<% set placed = operands | rejectattr("place", "equalto", "one") | list %>
<% set direct = inputs | rejectattr("place", "in", ["one", "staged"]) | list %>
<% set lanes = 32 if block > 1 else 1 %>
<% set across = tile // width %>
<% set turns = tile * across // block %>
<# Where a tile has an element, in groups of 16 bytes. The groups of a row are exchanged so that neither the writes of
   a warp, along a column, nor its reads, along a row, meet in a bank; on the host rows lie a cache line apart. #>
<% macro place(x, row, column) %>
<% if block > 1 %>(<< row >>) * << tile >> + (((<< column >>) / << x.pack >>) ^ ((<< row >>) / << x.pack >> % 8)) * << x.pack >> + (<< column >>) % << x.pack >><% else %>(<< row >>) * << tile + 4 * x.pack >> + (<< column >>)<% endif %>
<%- endmacro %>
<% macro step(x, axis) %>layout.stride[<< x.table >>][<< batches + axis >>]<% endmacro %>
<# An element of an operand that is not staged. #>
<% macro element(x, row, column) %>
<< memory(x) >>[o<< x.k >> + << row >> * << step(x, 0) >><% if x.place == "unit" %> + << column >><% elif x.place == "any" %> + (<< column >>) * << step(x, 1) >><% endif %>]
<%- endmacro %>

// Tiles along the inner axis and along the other, sizes of the batches' axes, slowest first; steps of the operands along
// the batches' axes, the other axis and the inner one, in elements.
struct Layout {
    Divisor across, down, by[<< [batches, 1] | max >>];
    << index >> stride[<< placed | length >>][<< batches + 2 >>];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    Layout layout, << index >> rows, << index >> columns)
{
    using index = << index >>;
<% for x in staged %>
    << "__shared__ alignas(16) " if block > 1 >><< x.type >> tile<< x.k >>[<< tile * (tile if block > 1 else tile + 4 * x.pack) >>];
<% endfor %>
<% if paired %>
    // A tile and the one that mirrors it are neighbours, so that what both read is read from memory once: the upper
    // triangle is folded to a rectangle, the tiles of which take turns with their mirror images.
    const unsigned int pair = blockIdx.x / 2, fold = quotient(pair, layout.across), at = pair - fold * layout.across.n;
    const unsigned int side = layout.down.n, odd = side % 2, upper = at + odd > fold;
    const unsigned int low = upper ? fold : side - 1 + odd - fold, high = upper ? at - 1 + odd : side - 1 - at;
    if (blockIdx.x % 2 && low == high) return;
    const index top = index(blockIdx.x % 2 ? high : low) * << tile >>, left = index(blockIdx.x % 2 ? low : high) * << tile >>;
<% else %>
    const unsigned int strip = quotient(blockIdx.x, layout.across);
    unsigned int rest = quotient(strip, layout.down);
    const index top = index(strip - rest * layout.down.n) * << tile >>;
    const index left = index(blockIdx.x - strip * layout.across.n) * << tile >>;
<% endif %>
<% for x in placed %>
    << "" if batches else "const " >>index o<< x.k >> = top * << step(x, 0) >> + left * << step(x, 1) >>;
<% endfor %>
<% for axis in range(batches - 1, -1, -1) %>
    {
        const unsigned int next = quotient(rest, layout.by[<< axis >>]);
        const index c = index(rest - next * layout.by[<< axis >>].n);
<% for x in placed %>
        o<< x.k >> += c * layout.stride[<< x.table >>][<< axis >>];
<% endfor %>
        rest = next;
    }
<% endfor %>
<< constants() >>
<% if whole %>
    if (top + << tile >> <= rows && left + << tile >> <= columns) {
        const int thread = int(threadIdx.x);
<% for x in staged %>
<% set bundle = [4 // x.size, 1] | max %>
<% set columns_apart = tile // bundle %>
<% set parts = tile // x.pack * columns_apart %>
<% set rounds = (parts + block - 1) // block %>
        Pack< << x.type >>, << x.pack >>> t<< x.k >>[<< rounds >>][<< bundle >>];
#pragma unroll
        for (int u = 0; u < << rounds >>; ++u) {
            const int part = thread + u * << block >>;
            const int row = (part % 8 + part / 32 % << tile // x.pack // 8 >> * 8) * << x.pack >>;
            const int column = (part / 8 % 4 + part / << 4 * tile // x.pack >> * 4) * << bundle >>;
<% if parts % block %>
            if (part >= << parts >>) break;
<% endif %>
#pragma unroll
            for (int m = 0; m < << bundle >>; ++m)
                t<< x.k >>[u][m] = load< << x.pack >> >(<< memory(x) >> + o<< x.k >> + row + (column + m) * << step(x, 1) >>);
        }
<% endfor %>
<% for x in direct %>
<% if x.place == "unit" %>
        Pack< << x.type >>, << width >>> p<< x.k >>[<< turns >>];
<% else %>
        << x.type >> p<< x.k >>[<< turns * width if x.place == "any" else turns >>];
<% endif %>
#pragma unroll
        for (int u = 0; u < << turns >>; ++u) {
            const int row = (thread + u * << block >>) / << across >>, column = (thread + u * << block >>) % << across >> * << width >>;
<% if x.place == "unit" %>
            p<< x.k >>[u] = load< << width >> >(<< memory(x) >> + o<< x.k >> + row * << step(x, 0) >> + column);
<% elif x.place == "zero" %>
            p<< x.k >>[u] = << element(x, "row", "column") | trim >>;
<% else %>
#pragma unroll
            for (int k = 0; k < << width >>; ++k) p<< x.k >>[u * << width >> + k] = << element(x, "row", "column + k") | trim >>;
<% endif %>
        }
<% endfor %>
<% for x in staged %>
<% set bundle = [4 // x.size, 1] | max %>
<% set columns_apart = tile // bundle %>
<% set parts = tile // x.pack * columns_apart %>
<% set rounds = (parts + block - 1) // block %>
#pragma unroll
        for (int u = 0; u < << rounds >>; ++u) {
            const int part = thread + u * << block >>;
            const int row = (part % 8 + part / 32 % << tile // x.pack // 8 >> * 8) * << x.pack >>;
            const int column = (part / 8 % 4 + part / << 4 * tile // x.pack >> * 4) * << bundle >>;
<% if parts % block %>
            if (part >= << parts >>) break;
<% endif %>
#pragma unroll
            for (int k = 0; k < << x.pack >>; ++k) {
                Pack< << x.type >>, << bundle >>> turned;
#pragma unroll
                for (int m = 0; m < << bundle >>; ++m) turned.at[m] = t<< x.k >>[u][m].at[k];
                *reinterpret_cast<Pack< << x.type >>, << bundle >>>*>(&tile<< x.k >>[<< place(x, "row + k", "column") | trim >>]) = turned;
            }
        }
<% endfor %>
        __syncthreads();
#pragma unroll
        for (int u = 0; u < << turns >>; ++u) {
            const int row = (thread + u * << block >>) / << across >>, column = (thread + u * << block >>) % << across >> * << width >>;
<% for x in staged %>
            const Pack< << x.type >>, << width >>> p<< x.k >> = load< << width >> >(tile<< x.k >> + << place(x, "row", "column") | trim >>);
<% endfor %>
<% for y in outputs %>
            Pack< << y.type >>, << width >>> r<< y.k >>;
<% endfor %>
#pragma unroll
            for (int k = 0; k < << width >>; ++k) {
<% for x in staged %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(p<< x.k >>.at[k]);
<% endfor %>
<% for x in direct %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(p<< x.k >><< {"unit": "[u].at[k]", "zero": "[u]"}.get(x.place, "[u * %d + k]" % width) >>);
<% endfor %>
<< computed() >>
<% for y in outputs %>
                r<< y.k >>.at[k] = cast< << y.type >> >(<< y.value >>);
<% endfor %>
            }
<% for y in outputs %>
            store(y<< loop.index0 >> + o<< y.k >> + row * << step(y, 0) >> + column, r<< y.k >>);
<% endfor %>
        }
        return;
    }
<% endif %>
    const int height = int(minimum(index(<< tile >>), rows - top)), breadth = int(minimum(index(<< tile >>), columns - left));
    const int lane = int(threadIdx.x) % << lanes >>, group = int(threadIdx.x) / << lanes >>;
    for (int column = group; column < breadth; column += << block // lanes >>)
        for (int row = lane; row < height; row += << lanes >>) {
<% for x in staged %>
            tile<< x.k >>[<< place(x, "row", "column") | trim >>] = << memory(x) >>[o<< x.k >> + row + column * << step(x, 1) >>];
<% endfor %>
        }
<% if block > 1 %>
    __syncthreads();
<% endif %>
    for (int row = group; row < height; row += << block // lanes >>)
        for (int column = lane; column < breadth; column += << lanes >>) {
<% for x in staged %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(tile<< x.k >>[<< place(x, "row", "column") | trim >>]);
<% endfor %>
<% for x in direct %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(<< element(x, "row", "column") | trim >>);
<% endfor %>
<< computed() >>
<% for y in outputs %>
                << element(y, "row", "column") | trim >> = cast< << y.type >> >(<< y.value >>);
<% endfor %>
        }
}
