// Second stage of split-K: D = epilogue(sum over parts of sums[part]), for partial sums (parts, batches, m, n). They are added in
// order, so every run gives the same bits.
// Launch: a thread for each element of D, blocks along x. Shared memory: none.
<% include "linear/epilogue.cuh" %>
constexpr int parts = << splits >>;
<< Sizes >>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const float* sums, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    const index i = (index)blockIdx.x * blockDim.x + threadIdx.x, each = (index)sizes.m * sizes.n, all = sizes.batches * each;
    if (i >= all) return;
    const Operands operands = epilogue.load(int(i / each), int(i % each / sizes.n), int(i % sizes.n));
    float given[parts];  // all are loaded before any is added
#pragma unroll
    for (int part = 0; part < parts; ++part) given[part] = sums[part * all + i];
    float sum = given[0];
#pragma unroll
    for (int part = 1; part < parts; ++part) sum += given[part];
    d[i] = epilogue(sum, operands);
}
