// A tile of `block * packs` packs of `width` neighbouring elements E in shared memory, in the order of memory. A warp has
// 32 * packs of them, a thread `packs`; a warp loads, reads and writes only its own, so it waits for no other.
template <typename E>
struct Tile {
    static constexpr int pack_bytes = width * (int)sizeof(E), bytes = pack_bytes < 16 ? pack_bytes : 16;
    static constexpr int in_pack = pack_bytes / bytes, in_word = width / in_pack, in_run = packs * in_pack;
    static constexpr int in_line = bytes < 4 ? 32 : 128 / bytes, swizzled = (in_run + in_line - 1) / in_line * in_line;
    Words<bytes> words[block * in_run];

    // Swizzled: words of neighbours, and the k-th words of their runs, lie in different banks.
    __device__ static __forceinline__ int swizzle(int word) { return word ^ word / swizzled % in_line; }
    __device__ static __forceinline__ int first_word() {
        const int warp = threadIdx.x / 32;
        return (reverse ? block / 32 - 1 - warp : warp) * 32 * in_run;
    }
    __device__ __forceinline__ E& element(int i) { return ((E*)words)[swizzle(i / in_word) * in_word + i % in_word]; }

    // Whether all elements of this warp lie in the row; `first` is the index in the row of the tile's first one.
    __device__ static __forceinline__ bool full(I first, I n) {
        const I from = first + first_word() * in_word;
        return from >= 0 && from + 32 * in_run * in_word <= n;
    }
    __device__ __forceinline__ void fetch(const E* row, I first, I n, bool straight, E absent) {
        const int from = first_word(), lane = threadIdx.x % 32;
        if (straight && full(first, n)) {
            const Words<bytes>* const source = (const Words<bytes>*)(row + first) + from + lane;
#pragma unroll
            for (int k = 0; k < in_run; ++k) copy_async(&words[swizzle(from + k * 32 + lane)], source + k * 32);
            return;
        }
#pragma unroll 4
        for (int i = from * in_word + lane; i < (from + 32 * in_run) * in_word; i += 32) {
            const I at = first + i;
            element(i) = at >= 0 && at < n ? row[at] : absent;
        }
    }
    __device__ __forceinline__ void store(R* row, I first, I n, bool straight) {
        const int from = first_word(), lane = threadIdx.x % 32;
        if (straight && full(first, n)) {
            Words<bytes>* const to = (Words<bytes>*)(row + first) + from + lane;
#pragma unroll
            for (int k = 0; k < in_run; ++k) to[k * 32] = words[swizzle(from + k * 32 + lane)];
            return;
        }
#pragma unroll 4
        for (int i = from * in_word + lane; i < (from + 32 * in_run) * in_word; i += 32) {
            const I at = first + i;
            if (at >= 0 && at < n) row[at] = element(i);
        }
    }

    // The k-th pack of a thread in the order of the scan; its elements are in that of memory.
    __device__ static __forceinline__ int of_thread(int k) {
        const int pack = threadIdx.x * packs + k;
        return in_pack * (reverse ? block * packs - 1 - pack : pack);
    }
    __device__ __forceinline__ Pack<E, width> pack(int k) const {
        const int word = of_thread(k);
        struct {
            Words<bytes> at[in_pack];
        } held;
#pragma unroll
        for (int h = 0; h < in_pack; ++h) held.at[h] = words[swizzle(word + h)];
        return *(const Pack<E, width>*)&held;
    }
    __device__ __forceinline__ void put(int k, const Pack<E, width>& pack) {
        const int word = of_thread(k);
#pragma unroll
        for (int h = 0; h < in_pack; ++h) words[swizzle(word + h)] = ((const Words<bytes>*)&pack)[h];
    }
};
