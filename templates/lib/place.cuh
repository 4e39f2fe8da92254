// An index counted from 0<< ": a negative one counts from the end, and what is out of range is the nearest end" if clip >>.
__device__ __forceinline__ long long settled(long long place, long long size) {
<% if clip %>
    place += place < 0 ? size : 0;
    return maximum(0ll, minimum(place, size - 1));
<% else %>
    return place;
<% endif %>
}
