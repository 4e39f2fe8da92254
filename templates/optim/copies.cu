// outputs[i] = given[i] for many arrays. Launch: a block for each piece of an array. Shared memory: none.
<% include "optim/pieces.cuh" %>
struct Given {
    const T* of[capacity];
};
struct Outputs {
    T* of[capacity];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Given given, const Outputs outputs, const Sizes sizes)
{
    const Piece piece = own_piece(sizes);
    const T* x = given.of[piece.array] + piece.start;
    T* y = outputs.of[piece.array] + piece.start;
    int packs = 0;
<% if vec > 1 %>
    if (is_aligned(x) && is_aligned(y)) packs = piece.size / vec;
    for (int k = threadIdx.x; k < packs; k += block) store_pack<vec>(y + vec * k, load_pack<vec>(x + vec * k));
<% endif %>
    for (int i = vec * packs + threadIdx.x; i < piece.size; i += block) y[i] = x[i];
}
