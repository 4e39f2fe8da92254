// Loads k-block after k-block of quantised weights to shared memory, for the kernels of linear/product.cuh: a thread decodes groups of
// 16 weights to T. Their bytes are fetched a k-block ahead, and so have come when they are decoded.
template <int SIZE, bool BY_DEPTH>
struct QuantisedLoader {
    using To = KBlock<SIZE, BY_DEPTH>;
    static constexpr int along = (BY_DEPTH ? depth : SIZE) / 16, count = To::lines * along / threads;  // groups of a line, of a thread
    static_assert(To::lines % 32 == 0 && To::lines * along % threads == 0, "all lanes of a warp have the same group of a line");
    const unsigned char* blocks;
    index row_bytes;
    int first, left_rows, left;  // of the k-block: its first weight across the depth, and what there is of rows and along them
    int before;                  // the depth of the k-block that is fetched
    Kind::Unit held[count];

    __device__ __forceinline__ QuantisedLoader(const unsigned char* blocks, index row_bytes, int first, int size, int depth_end)
        : blocks(blocks), row_bytes(row_bytes), first(first), left_rows(BY_DEPTH ? size : depth_end),
          left(BY_DEPTH ? depth_end : size), before(0)
    {
        fetch();
    }
    __device__ __forceinline__ void next(T* k_block) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const Place at(*this, i);
            const InUnit<Kind> in(at.column / 16);
#pragma unroll
            for (int group = 0; group < Kind::groups; ++group)
                if (group == in.group) put(To{k_block}, at, held[i].decode(group));
        }
        before += depth;
        fetch();
    }

private:
    // A thread's i-th group: its line and place in the k-block, and its row and column in W.
    struct Place {
        int line, group, row, column;
        bool inside;

        __device__ __forceinline__ Place(const QuantisedLoader& of, int i) {
            const int number = threadIdx.x + i * threads;
            line = number % To::lines;
            group = number / To::lines;
            row = (BY_DEPTH ? of.first : of.before) + line;
            column = (BY_DEPTH ? of.before : of.first) + 16 * group;
            inside = row < of.left_rows && column < of.left;
        }
    };
    __device__ __forceinline__ void fetch() {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const Place at(*this, i);
            if (!at.inside) continue;
            const InUnit<Kind> in(at.column / 16);
            held[i] = Kind::Unit(blocks + at.row * row_bytes + in.block * Kind::bytes, in.unit);
        }
    }
    __device__ __forceinline__ void put(To k_block, const Place& at, const Group& group) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            Pack<T, 8> pack;
#pragma unroll
            for (int j = 0; j < 8; ++j) pack.at[j] = cast<T>(at.inside ? weight(group, 8 * half + j) : 0.0f);
            store_pack(k_block.at(at.line, 2 * at.group + half), pack);
        }
    }
};
