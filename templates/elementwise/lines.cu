// y[i] = f(x0[i], x1[i], ...): every elementwise operation, every fused function, every derivative of either.
// Inputs x* of any strides (one that is written in place is an output), scalars s*, outputs y*. `offset_of` numbers for each
// operand the first that steps by as much along the outer axes. The axes are `rows` (the
// outer ones together) by `columns` (the inner one), along which an operand steps by 1, 0 or layout.step.
// Launch: << lanes >> threads share a row; such a group owns `rows_piece` rows and `piece` columns of each. Groups of
// columns lie along blockIdx.y, or along blockIdx.x where there is one row. No shared memory.
// `tile`: the elements that the host makes at once by a quick expression, and again if one is NaN; 0 for none. With
// `masks` it makes so many masks of a condition, and packs them; with `vectors` it makes vectors of complex numbers.
<% include "prelude/math.cuh" %>
<% if tile and masks %>
<% include "prelude/masks.cuh" %>
<% endif %>
<% if tile and vectors %>
<% include "prelude/complex_lanes.cuh" %>
<% endif %>
<% set operands = inputs + outputs %>
<% set strided = outer or "any" in operands | map(attribute="step") %>
<% macro at(k, step) %>
<% if step == "unit" %><< "o%d + j" % offset_of[k] if outer else "j" >><% elif step == "zero" %><< "o%d" % offset_of[k] if outer else "0" >><% else %><< "o%d + " % offset_of[k] if outer else "" >>j * layout.step[<< k >>]<% endif %>
<% endmacro %>
<% macro parameters() %>
<% for x in inputs if not x.inplace %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<% for y in outputs %>
    << y.type >>*<< " __restrict__" if block == 1 or outputs | length > 1 >> y<< loop.index0 >>,
<% endfor %>
<% if strided %>
    Layout layout,
<% endif %>
<% if outer %>
    << index >> rows, << index >> rows_piece,
<% endif %>
    << index >> columns, << index >> piece
<%- endmacro %>
<% macro offsets() %>
        index i = row;
<% for axis in range(outer - 1, -1, -1) %>
<% for k in range(operands | length) if offset_of[k] == k %>
        << ("index o%d =" if axis == outer - 1 else "o%d +=") % k >> i<< " % layout.shape[" ~ axis ~ "]" if axis >> * layout.stride[<< k >>][<< axis >>];
<% endfor %>
<% if axis %>
        i /= layout.shape[<< axis >>];
<% endif %>
<% endfor %>
<%- endmacro %>
<% macro element(quick=false, mask=false) %>
<% for x in inputs %>
            const << x.compute >> a<< x.k >> = cast< << x.compute >> >(loaded(<< x.inplace or "x%d" % x.k >>[<< at(x.k, x.step) | trim >>]));
<% endfor %>
<% for line in body %>
            const << line.type >> << line.name >> = << line.quick if quick and line.quick else line.code >>;
<% endfor %>
<% for y in outputs %>
<% if mask %>
            masks[k] = << y.value >> ? -1 : 0;
<% else %>
            y<< loop.index0 >>[<< at(inputs | length + loop.index0, y.step) | trim >>] = cast< << y.type >> >(<< y.value >>);
<% endif %>
<% endfor %>
<%- endmacro %>
<% macro packed() %>
        constexpr int tile = << tile >>;
        index next = start;
        for (; packs_masks && next + tile <= end; next += tile) {
            int masks[tile];
            for (int k = 0; k < tile; ++k) {
                const index j = next + k;
<< element(mask=true) >>
            }
            pack_masks<tile>(masks, &y0[<< "o%d + " % offset_of[inputs | length] if outer >>next]);
        }
<%- endmacro %>
<% macro quickly() %>
        constexpr int tile = << tile >>;
<% if "signs" in body | map(attribute="quick") | join %>
        const auto signs = complex_parts::signs<< "<%s>" % (body | selectattr("quick") | first).type >>();
<% endif %>
        index next = start;
        for (; next + tile <= end; next += tile) {
<% if vectors %>
#ifdef CUKERN_LANES
            const bool again = complex_parts::made_with_nan<tile>(&y0[<< "o%d + " % offset_of[inputs | length] if outer >>next], [&](int k) {
                const index j = next + k;
<% for x in inputs %>
                const complex_parts::Lanes<decltype(x<< x.k >>->re)> a<< x.k >>(&x<< x.k >>[<< at(x.k, x.step) | trim >>]);
<% endfor %>
                return << body[-1].quick >>;
            });
#else
<% endif %>
            for (int k = 0; k < tile; ++k) {
                const index j = next + k;
<< element(quick=true) >>
            }
            const bool again = any_nan<tile>(&y0[<< "o%d + " % offset_of[inputs | length] if outer >>next]);
<% if vectors %>
#endif
<% endif %>
            if (again) {
                for (index j = next; j < next + tile; ++j) {
<< element() >>
                }
            }
        }
<%- endmacro %>
<% if strided %>

// Sizes of the outer axes, slowest first; steps of the operands, inputs first, in elements.
<< Layout >>
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>)
{
    using index = << index >>;
    const index group = (index(blockIdx.x) * << block >> + index(threadIdx.x)) / << lanes >>;
    const index lane = index(threadIdx.x) % << lanes >>;
    const index start = << "index(blockIdx.y)" if outer else "group" >> * piece;
    const index end = minimum(columns, start + piece);
<% if outer %>
    const index last = minimum(rows, (group + 1) * rows_piece);
    for (index row = group * rows_piece; row < last; ++row) {
<< offsets() >>
<% endif %>
<< packed() if tile and masks else quickly() if tile >>
        for (index j = << "next" if tile else "start + lane" >>; j < end; j += << lanes >>) {
<< element() >>
        }
<% if outer %>
    }
<% endif %>
}
