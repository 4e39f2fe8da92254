// Where the rows come from that combine.cuh combines: from an array g, or with `inputs` they are those of an expression of
// arrays x*, whose places are in Layout. Some x* have the rows that the indices i* name, clipped to their size.
// A source has a row() by number, load() of the packs of a thread in it, and the value() of an element of a pack.
<% set computed = inputs is defined %>
<# The parameters of a kernel for what is combined. #>
<% macro parameters() %>
<% if computed %>
<% for x in inputs %>
    const << x.type >>* __restrict__ x<< x.k >>,
<% endfor %>
<% for type in indices %>
    const << type >>* __restrict__ i<< loop.index0 >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<% else %>
    const T* __restrict__ g,
<% endif %>
<%- endmacro %>
<# The source of rows `o` from a column on, of these parameters. #>
<% macro source() %>
<% if computed %>
        Computed source{<% for x in inputs %>x<< x.k >>, <% endfor %><% for type in indices %>i<< loop.index0 >>, <% endfor %><% for type in scalars %>s<< loop.index0 >>, <% endfor %>order, layout};
        source.begin(column, inner);
<% else %>
        const Lying<T> source{g + o * count * inner + column, order, inner};
<% endif %>
<%- endmacro %>
<% macro layout() %><< "Layout layout, " if computed >><% endmacro %>

// The rows of an array from a column on, one behind another or those that `order` names.
template <typename Element>
struct Lying {
    const Element* data;
    const long long* order;
    long long inner;

    using Held = Pack<Element, width>;
    __device__ __forceinline__ const Element* row(index j) const { return data + (order ? order[j] : (long long)j) * inner; }
    __device__ __forceinline__ Held load(const Element* row, int k) const { return *(const Held*)(row + k * lanes * width); }
    __device__ __forceinline__ acc value(const Held& held, int w) const { return cast<acc>(held.at[w]); }
};
<% if computed %>

<% include "prelude/math.cuh" %>
<% include "lib/strided.cuh" %>
<% include "lib/wrap_index.cuh" %>
<< Layout >>
// The rows of an expression. Along a row an array is read in packs ("pack"), has one value ("zero"), or is read element by
// element where that is needed ("unit", "any").
struct Computed {
<% for x in inputs %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
<% for type in indices %>
    const << type >>* i<< loop.index0 >>;
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>;
<% endfor %>
    const long long* order;
    const Layout& layout;
    index column[items][<< inputs | length >>] = {};

    // Begins at a column.
    __device__ __forceinline__ void begin(index first, long long inner) {
#pragma unroll
        for (int k = 0; k < items; ++k)
            if (in_row(first, k, inner)) advance(column[k], first + k * lanes * width, layout.column_shape, layout.column_step);
    }
    struct Row {
        index offset[<< inputs | length >>];
    };
    __device__ __forceinline__ Row row(index j) const {
        const index row = order ? index(order[j]) : j;
<% for type in indices %>
        const long long at<< loop.index0 >> = i<< loop.index0 >>[row * layout.index_step[<< loop.index0 >>]];
<% endfor %>
        return {<% for x in inputs %><< "index(in_range(at%d, layout.source_size[%d]))" % x.by if x.by else "row" >> * layout.row_step[<< x.k >>], <% endfor %>};
    }
    struct Held {
<% for x in inputs %>
        << {"pack": "Pack<%s, width> in%d" % (x.type, x.k), "zero": "%s in%d" % (x.type, x.k)}[x.step] | default("index at%d" % x.k) >>;
<% endfor %>
    };
    __device__ __forceinline__ Held load(const Row& row, int k) const {
        Held held;
<% for x in inputs %>
<% set place = "row.offset[%d] + column[k][%d]" % (x.k, x.k) %>
<% if x.step == "pack" %>
        held.in<< x.k >> = load_pack<width>(x<< x.k >> + (<< place >>));
<% elif x.step == "zero" %>
        held.in<< x.k >> = x<< x.k >>[<< place >>];
<% else %>
        held.at<< x.k >> = << place >>;
<% endif %>
<% endfor %>
        return held;
    }
    __device__ __forceinline__ acc value(const Held& held, int w) const {
<% for x in inputs %>
<% set place = {"pack": "held.in%d.at[w]" % x.k, "zero": "held.in%d" % x.k}[x.step] | default("loaded(x%d[held.at%d + stepped<Step::%s>(w, layout.step[%d])])" % (x.k, x.k, x.step, x.k)) %>
        const << x.compute >> a<< x.k >> = cast< << x.compute >> >(<< place >>);
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return << value >>;
    }
};
<% endif %>
