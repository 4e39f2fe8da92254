// Appends rows to those of a cache: row l of batch b of k and v becomes row lengths[b] + l of keys and values, and is left out
// if that is beyond their end.
// Launch: a thread for each element of k and v, in x. All are (batch, heads, rows, features).
using T = << elem >>;

__device__ void append(const View<const T, 4>& from, const View<T, 4>& to, const int* lengths, long long i) {
    const int e = i % from.shape[3], l = i / from.shape[3] % from.shape[2];
    const long long matrix = i / from.shape[3] / from.shape[2];
    const int head = matrix % from.shape[1], batch = matrix / from.shape[1], row = lengths[batch] + l;
    if (row >= 0 && row < to.shape[2]) to(batch, head, row, e) = from(batch, head, l, e);
}

extern "C" __global__ void << name >>(
    View<const T, 4> k, View<const T, 4> v, const int* lengths, View<T, 4> keys, View<T, 4> values)
{
    const long long i = (long long)blockIdx.x * << block >> + threadIdx.x, rows = k.shape[0] * k.shape[1] * k.shape[2];
    if (i < rows * k.shape[3]) append(k, keys, lengths, i);
    else if (i < rows * (k.shape[3] + v.shape[3])) append(v, values, lengths, i - rows * k.shape[3]);
}
