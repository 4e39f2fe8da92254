// Places << "for each element" if each else "for each row" >> along the middle axis. p = places<< "[o, j, i]" if each else "[j]" >>; x, places (outer, count, inner), y likewise; the other
// side of the picked axis is (outer, size, inner); all in C order.
<% if mode == "gather" %>
// y[o, j, i] = x[o, p, i].
<% elif mode == "flat" %>
// y[o, j, i] = the place of [o, p, i] in the flattened (outer, size, inner).
<% elif mode == "add" %>
// y[o, p, i] += x[o, j, i], in the order of j.
<% else %>
// y[o, p, i] = x[o, j, i], in the order of j: the last of a place stays.
<% endif %>
<% if mode in ("gather", "flat") %>
// Launch: a thread owns `piece` elements<< "" if serial else ", those of a block in turns" >>. No shared memory.
<% else %>
// Launch: a thread owns `piece` of the i of one o: one thread alone writes to an element. No shared memory, no atomics.
<% endif %>
<% include "lib/place.cuh" %>
using I = << index >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    <<- "const %s* __restrict__ x, " % elem if mode != "flat" >>const << place >>* __restrict__ places, << out >>* __restrict__ y,
    I total, I piece, I size, I count, I inner)
{
<% if mode in ("gather", "flat") %>
<% set picked = "x[%s]" if mode == "gather" else "%s" %>
<% if serial %>
    const I start = (I)blockIdx.x * piece, end = minimum(total, start + piece);
    for (I at = start; at < end;) {
<% if single_inner %>
        const I o = at / count, stop = minimum(end, (o + 1) * count);
        for (; at < stop; ++at) y[at] = << picked % "o * size + settled(places[at], size)" >>;
<% else %>
        const I row = at / inner, stop = minimum(end, (row + 1) * inner), base = row / count * size;
        for (I i = at - row * inner; at < stop; ++at, ++i) y[at] = << picked % "(base + settled(places[at], size)) * inner + i" >>;
<% endif %>
    }
<% else %>
    const I start = (I)blockIdx.x * << block >> * piece + (I)threadIdx.x;
    const I end = minimum(total, start + << block >> * piece);
#pragma unroll 4
    for (I at = start; at < end; at += << block >>) {
        const I row = << "at" if single_inner else "at / inner" >>;
        const I base = << "0" if single else "row / count * size" >>;
        y[at] = << picked % ("base + settled(places[at], size)" if single_inner else "(base + settled(places[at], size)) * inner + (at - row * inner)") >>;
    }
<% endif %>
<% else %>
    const I pieces = divide_up(inner, piece);
    const I task = (I)blockIdx.x * << block >> + (I)threadIdx.x;
    if (task >= total) return;
    const I o = task / pieces, first = task % pieces * piece, last = minimum(inner, first + piece);
    for (I j = 0; j < count; ++j) {
        const I from = (o * count + j) * inner;
<% if not each %>
        const I to = (o * size + settled(places[j], size)) * inner;
<% endif %>
<% if single_inner %>
        y[<< "o * size + settled(places[from], size)" if each else "to" >>] << "+" if mode == "add" >>= cast< << out >> >(x[from]);
<% else %>
        for (I i = first; i < last; ++i)
            y[<< "(o * size + settled(places[from + i], size)) * inner" if each else "to" >> + i] << "+" if mode == "add" >>= cast< << out >> >(x[from + i]);
<% endif %>
    }
<% endif %>
}
