// Where the elements of a convolution's three arrays are: of the image, of the weights and of the output, which
//   output(pixel, filter) = sum over taps and channels of image(pixel, tap, channel) * weights(filter, tap, channel)
// connects. A pixel is one of a batch of grids, a tap a place of the window; both have three axes, some of size 1. The image's
// place along an axis is base + pixel * step + tap * tap_step; beyond the image are zeros.
// What is called image and output here may be the gradient of the output and that of the image, by turned windows.

<% include "lib/divisor.cuh" %>

// Strides in elements; sizes, first place, step and tap's step in the image along its axes; the product's sizes m, n, k, its tiles,
// and its depth for a block; divisors by the sizes of the grid and the window, and by that of the taps, or of the channels.
<< Geometry >>

// What a row, a column or a place along the depth adds to an element's offset, and to its place in the image. A place that is
// far outside along the second axis tells that the array does not have it.
struct Line {
    index offset;
    int z, y, x;
};
constexpr int far_outside = -(1 << "<<" >> 30);
__device__ __forceinline__ Line there(bool is, index offset, int z = 0, int y = 0, int x = 0) {
    return {is ? offset : index(0), z, is ? y : far_outside, x};
}

constexpr bool taps_inside = << taps_inside | default(false) | lower >>;  // taps count faster than channels

__device__ __forceinline__ Line pixel_of_image(const Geometry& g, int pixel, int count) {
    int rest = pixel;
    const int x = g.pixels[2].take(rest) * g.step[2] + g.base[2];
    const int y = g.pixels[1].take(rest) * g.step[1] + g.base[1];
    const int z = g.pixels[0].take(rest) * g.step[0] + g.base[0];
    const index offset = rest * g.image.batch + z * g.image.at[0] + y * g.image.at[1] + x * g.image.at[2];
    return there(pixel < count, offset, z, y, x);
}
__device__ __forceinline__ Line pixel_of_output(const Geometry& g, int pixel, int count) {
    int rest = pixel;
    index offset = g.pixels[2].take(rest) * g.output.at[2];
    offset += g.pixels[1].take(rest) * g.output.at[1];
    offset += g.pixels[0].take(rest) * g.output.at[0];
    return there(pixel < count, offset + rest * g.output.batch);
}
// A tap and a channel: `place` numbers both, and is replaced by the channel.
struct Tap {
    int z, y, x;

    __device__ __forceinline__ Tap(const Geometry& g, int& place) {
        int inner = g.inner.take(place);
        int tap = taps_inside ? inner : place;
        if (!taps_inside) place = inner;
        x = g.taps[1].take(tap);
        y = g.taps[0].take(tap);
        z = tap;
    }
};
__device__ __forceinline__ Line tap_of_image(const Geometry& g, int place, int count) {
    int channel = place;
    const Tap tap(g, channel);
    const int z = tap.z * g.tap_step[0], y = tap.y * g.tap_step[1], x = tap.x * g.tap_step[2];
    const index offset = channel * g.image.channel + z * g.image.at[0] + y * g.image.at[1] + x * g.image.at[2];
    return there(place < count, offset, z, y, x);
}
__device__ __forceinline__ Line tap_of_weights(const Geometry& g, int place, int count) {
    int channel = place;
    const Tap tap(g, channel);
    const index offset = tap.z * g.weight_at[0] + tap.y * g.weight_at[1] + tap.x * g.weight_at[2];
    return there(place < count, offset + channel * g.weight_channel);
}
__device__ __forceinline__ Line filter_of_weights(const Geometry& g, int filter, int count) {
    return there(filter < count, filter * g.weight_filter);
}
__device__ __forceinline__ Line filter_of_output(const Geometry& g, int filter, int count) {
    return there(filter < count, filter * g.output.channel);
}
