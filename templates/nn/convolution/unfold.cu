// im2col: y[plane, tap, window] = the image's element at the window's tap, 0 in the padding; all arrays are contiguous.
// Launch: a thread for each of `count` elements of y, blocks along x. Shared: none.
<% include "nn/convolution/places.cuh" %>

extern "C" __global__ void __launch_bounds__(block) << name >>(const T* x, T* y, index count, Windows w) {
    const index i = (index)blockIdx.x * block + threadIdx.x;
    if (i >= count) return;
    const int windows = w.down * w.across, window = i % windows, taps = w.kernel[0] * w.kernel[1];
    const index line = i / windows, plane = line / taps;
    const int tap = line - plane * taps;
    const int row = window / w.across * w.stride[0] - w.padding[0] + tap / w.kernel[1] * w.dilation[0];
    const int column = window % w.across * w.stride[1] - w.padding[1] + tap % w.kernel[1] * w.dilation[1];
    const bool inside = row >= 0 && row < w.height && column >= 0 && column < w.width;
    y[i] = inside ? x[(plane * w.height + row) * w.width + column] : cast<T>(0);
}
