// The kernel of an optimizer: a step of many arrays, in place. It follows optim/arrays.cuh, with the optimizer's names, and
// `advance`, which updates one of N elements in registers.
<% from "optim/arrays.cuh" import number_parameters, numbers with context %>
template <int N>
__device__ __forceinline__ void update(const Pieces& pieces, int first, const Numbers& numbers) {
    Elements<N> at;
    pieces.load(first, at);
    begin_with_masters(at);
#pragma unroll
    for (int i = 0; i < N; ++i) advance(at, i, numbers);
    pieces.store(first, at);
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Gradients gradients, << number_parameters() >>const Arrays arrays, const Sizes sizes)
{
    const Piece own = own_piece(sizes);
    const Pieces pieces = pieces_of(gradients, arrays, own);
    const Numbers numbers = {<< numbers() >>};
    int packs = 0;
<% if vec > 1 %>
    if (pieces.aligned()) packs = own.size / vec;
    for (int k = threadIdx.x; k < packs; k += block) update<vec>(pieces, vec * k, numbers);
<% endif %>
    for (int i = vec * packs + threadIdx.x; i < own.size; i += block) update<1>(pieces, i, numbers);
}
