// K-blocks of the factors as operands of wgmma, after linear/product.cuh.
<% set wgmma_columns = [tile_n] %>
<% include "prelude/wgmma.cuh" %>
// The operand of one instruction: the part of a k-block from row (or column) `first` on, at depth 0.
template <int SIZE, bool BY_DEPTH>
__device__ __forceinline__ SharedMatrix part(const KBlock<SIZE, BY_DEPTH>& k_block, int first) {
    constexpr int bytes = sizeof(T) * line;
    if constexpr (BY_DEPTH) return SharedMatrix(k_block.memory + first * line, 16, 8 * bytes);
    else return SharedMatrix(k_block.memory + first / line * k_block.block, sizeof(T) * k_block.block, 8 * bytes);
}
// Elements that an instruction multiplies along the depth, and bytes from one step of so many to the next.
constexpr int step = 32 / sizeof(T);
constexpr int step_a = a_by_depth ? 32 : 32 * line;
constexpr int step_b = b_by_depth ? 32 : 32 * line;
