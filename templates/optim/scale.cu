// made[i] = given[i] * scale[at] for many arrays. Launch: a block for each piece of an array. Shared memory: none.
<% include "optim/pieces.cuh" %>
struct Given {
    const << elem >>* of[<< capacity >>];
};
struct Made {
    << elem >>* of[<< capacity >>];
};

template <int N>
__device__ __forceinline__ void scaled(const << elem >>* x, << elem >>* y, << acc >> scale) {
    << acc >> v[N];
    unpack(load_pack<N>(x), v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= scale;
    store_pack<N>(y, packed< << elem >>, N>(v));
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Given given, const Made made, const double* scale, int at, const Sizes sizes)
{
    const Piece piece = own_piece(sizes);
    const << acc >> by = << acc >>(scale[at]);
    const << elem >>* x = given.of[piece.array] + piece.start;
    << elem >>* y = made.of[piece.array] + piece.start;
<% if vec > 1 %>
    const int packs = is_aligned(x) && is_aligned(y) ? piece.size / << vec >> : 0;
    for (int k = threadIdx.x; k < packs; k += << block >>)
        scaled< << vec >>>(x + << vec >> * k, y + << vec >> * k, by);
    for (int i = << vec >> * packs + threadIdx.x; i < piece.size; i += << block >>) scaled<1>(x + i, y + i, by);
<% else %>
    for (int i = threadIdx.x; i < piece.size; i += << block >>) scaled<1>(x + i, y + i, by);
<% endif %>
}
