// y[i, j] = sum over k of a[i, k] * b[k, j], plus bias[j] if bias is not null.
// a (rows, inner), b (inner, columns): any strides, so a transpose or a row of ones repeated costs no copy; the same
// text is thereby a linear layer and its three gradients. y (rows, columns), any strides; bias (columns) or null.
// Launch: grid (divide_up(rows, block_y), divide_up(columns, block_x)). Shared: none. A thread owns one output.
using T = << elem >>;
using acc = << acc >>;
constexpr int block_x = << block_x >>, block_y = << block_y >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    View<const T, 2> a, View<const T, 2> b, const T* bias, View<T, 2> y)
{
    const long long i = (long long)blockIdx.x * block_y + (long long)threadIdx.y;
    const long long j = (long long)blockIdx.y * block_x + (long long)threadIdx.x;
    if (i >= y.shape[0] || j >= y.shape[1]) return;
    acc sum = bias ? cast<acc>(bias[j]) : acc(0);
    for (long long k = 0; k < a.shape[1]; ++k) sum += cast<acc>(a(i, k)) * cast<acc>(b(k, j));
    y(i, j) = cast<T>(sum);
}
