// What the tiles of the pooling kernels share: runs of neighbouring elements of a row, moved up to 16 bytes at a time.
<% include "prelude/packs.cuh" %>

template <typename I>
__device__ __forceinline__ I clamped(I at, I last) {
    return minimum(maximum(at, I(0)), last);
}

// to[k] = x[plane + row * width + first + k]; beyond the plane `outside` with FILL, else any element of the plane.
// PACK: elements of an access; where it is not 1, the plane is aligned to it, width is a multiple of it, and
// first = OFFSET modulo PACK. An access of which a single element is wanted is an access to that element alone.
// Reads beyond the plane are moved into it and not left out: a branch about each would have one wait for the other.
template <int COUNT, int PACK, int OFFSET, bool FILL, typename T, typename I>
__device__ __forceinline__ void load_segment(
    T (&to)[COUNT], const T* x, I plane, I row, I height, I first, I width, T outside)
{
    const I inner_row = clamped(row, height - 1);
    const I line = plane + inner_row * width;
#pragma unroll
    for (int start = -OFFSET; start < COUNT; start += PACK) {
        const int begin = start < 0 ? 0 : start, end = start + PACK < COUNT ? start + PACK : COUNT;
        const bool single = end - begin == 1;
        const I wanted = first + (single ? begin : start), column = clamped(wanted, width - (single ? 1 : PACK));
        const T* from = x + (line + column);
        const bool inside = !FILL || (row == inner_row && wanted == column);
        if (single) {
            to[begin] = inside ? *from : outside;
            continue;
        }
        const Pack<T, PACK> pack = load_pack<PACK>(from);
#pragma unroll
        for (int k = 0; k < PACK; ++k) {
            if (start + k >= 0 && start + k < COUNT) to[start + k] = inside ? pack.at[k] : outside;
        }
    }
}

// to[k] = from[k] for the first `size` elements; PACK divides COUNT, and where it is not 1, `to` is aligned to it and
// size a multiple of it.
template <int PACK, int COUNT, typename T, typename From, typename I>
__device__ __forceinline__ void store_segment(T* to, const From (&from)[COUNT], I size) {
#pragma unroll
    for (int start = 0; start < COUNT; start += PACK) {
        Pack<T, PACK> pack;
#pragma unroll
        for (int k = 0; k < PACK; ++k) pack.at[k] = cast<T>(from[start + k]);
        if (start < size) store_pack(to + start, pack);
    }
}
