<% include "lib/pack.cuh" %>

// A factor's way into shared memory, by k-blocks: Depth places of the inner axis by Size of the factor's own (its rows or
// columns). A k-block lies there as Depth lines of Size numbers, of which a thread reads its own four at a time.
// A thread moves Width neighbours at a time: along the factor's own axis or, if Transposed, along the inner one.
template <typename Elem, typename Acc, typename Index, int Threads, int Size, int Depth, int Width, bool Transposed>
struct KBlock {
    static constexpr int line = (Transposed ? Depth : Size) / Width;
    static constexpr int count = Size * Depth / (Width * Threads);
    static_assert(count * Width * Threads == Size * Depth, "the threads share a k-block evenly");

    const Elem* start;
    Index from[count];
    Pack<Elem, Width> held[count];

    // What a place on line k is xored with: the lanes that transpose a k-block write to different lines, and this makes the
    // banks different too. A multiple of 4, so that four neighbours remain neighbours.
    __device__ static __forceinline__ constexpr int swizzle(int k) {
        const int lanes = Depth / Width < 8 ? Depth / Width : 8;
        return Transposed ? k / Width % lanes * (32 / lanes) : 0;
    }

    // `first`: the factor's element at the tile's first place; `size` places of the factor's own axis are left.
    __device__ __forceinline__ void begin(const Elem* first, Index size, Index step, Index inner_step) {
        start = first;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const int moved = int(threadIdx.x) + i * Threads;
            const int k = Transposed ? moved % line * Width : moved / line;
            const int column = Transposed ? moved / line : moved % line * Width;
            // Beyond the edge the last ones are read again, for outputs that no one writes.
            from[i] = minimum(Index(column), size - (Transposed ? 1 : Width)) * step + k * inner_step;
        }
    }

    // The first `depth` lines; 0 beyond.
    __device__ __forceinline__ void load_first(int depth) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const int moved = int(threadIdx.x) + i * Threads;
            const bool inside = (Transposed ? moved % line * Width : moved / line) < depth;
#pragma unroll
            for (int v = 0; v < Width; ++v) held[i].at[v] = cast<Elem>(0.0f);
            if (inside) held[i] = *(const Pack<Elem, Width>*)(start + from[i]);
        }
    }

    __device__ __forceinline__ void load() {
#pragma unroll
        for (int i = 0; i < count; ++i) held[i] = *(const Pack<Elem, Width>*)(start + from[i]);
    }

    __device__ __forceinline__ void advance(long long by) { start += by; }

    __device__ __forceinline__ void store(Acc* k_block) const {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const int moved = int(threadIdx.x) + i * Threads;
            const int k = Transposed ? moved % line * Width : moved / line;
            const int column = (Transposed ? moved / line : moved % line * Width) ^ swizzle(k);
            if (Transposed) {
#pragma unroll
                for (int v = 0; v < Width; ++v) k_block[(k + v) * Size + column] = cast<Acc>(held[i].at[v]);
            } else {
                Pack<Acc, Width> wide;
#pragma unroll
                for (int v = 0; v < Width; ++v) wide.at[v] = cast<Acc>(held[i].at[v]);
                *(Pack<Acc, Width>*)&k_block[k * Size + column] = wide;
            }
        }
    }

    // A thread's Count numbers of line k: four at `start` and four every Step beyond.
    template <int Step, int Count>
    __device__ static __forceinline__ void read(const Acc* k_block, int start, int k, Acc (&to)[Count]) {
        // The bits that tell fours apart; `start` has none of them, so that a sum is an xor.
        constexpr int fours = (Count / 4 - 1) * Step;
        const Acc* from = k_block + k * Size + (start ^ (swizzle(k) & ~fours));
#pragma unroll
        for (int i = 0; i < Count; i += 4) {
            const Pack<Acc, 4> four = *(const Pack<Acc, 4>*)(from + (i / 4 * Step ^ (swizzle(k) & fours)));
#pragma unroll
            for (int v = 0; v < 4; ++v) to[i + v] = four.at[v];
        }
    }
};
