// col2im: y[plane, row, column] = the sum over all windows' taps that lie there of x[plane, tap, window], in the order of the taps; all
// arrays are contiguous.
// Launch: a thread for each of `count` elements of y, blocks along x. Shared: none.
<% include "nn/convolution/places.cuh" %>
using acc = << acc >>;

// The window along an axis whose tap lies at a place; -1 if there is none.
__device__ __forceinline__ int window_of(const Windows& w, int axis, int place, int tap, int windows) {
    const int from = place + w.padding[axis] - tap * w.dilation[axis], window = from / w.stride[axis];
    return from >= 0 && window < windows && window * w.stride[axis] == from ? window : -1;
}

extern "C" __global__ void __launch_bounds__(block) << name >>(const T* x, T* y, index count, Windows w) {
    const index i = (index)blockIdx.x * block + threadIdx.x;
    if (i >= count) return;
    const index line = i / w.width, plane = line / w.height;
    const int column = i - line * w.width, row = line - plane * w.height;
    acc sum = 0;
    for (int a = 0; a < w.kernel[0]; ++a) {
        const int down = window_of(w, 0, row, a, w.down);
        if (down < 0) continue;
        for (int b = 0; b < w.kernel[1]; ++b) {
            const int across = window_of(w, 1, column, b, w.across);
            if (across < 0) continue;
            const index of_plane = (plane * w.kernel[0] + a) * w.kernel[1] + b;
            sum += cast<acc>(x[(of_plane * w.down + down) * w.across + across]);
        }
    }
    y[i] = cast<T>(sum);
}
