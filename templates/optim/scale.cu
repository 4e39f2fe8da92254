// outputs[i] = given[i] * scale[at] for many arrays. Launch: a block for each piece of an array. Shared memory: none.
<% include "optim/pieces.cuh" %>
struct Given {
    const T* of[capacity];
};
struct Outputs {
    T* of[capacity];
};

template <int N>
__device__ __forceinline__ void scaled(const T* x, T* y, acc scale) {
    acc v[N];
    unpack(load_pack<N>(x), v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] *= scale;
    store_pack<N>(y, packed<T, N>(v));
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Given given, const Outputs outputs, const double* scale, int at, const Sizes sizes)
{
    const Piece piece = own_piece(sizes);
    const acc by = acc(scale[at]);
    const T* x = given.of[piece.array] + piece.start;
    T* y = outputs.of[piece.array] + piece.start;
    int packs = 0;
<% if vec > 1 %>
    if (is_aligned(x) && is_aligned(y)) packs = piece.size / vec;
    for (int k = threadIdx.x; k < packs; k += block) scaled<vec>(x + vec * k, y + vec * k, by);
<% endif %>
    for (int i = vec * packs + threadIdx.x; i < piece.size; i += block) scaled<1>(x + i, y + i, by);
}
