// What the sum over the window that starts at (top, left) is divided by: its positions inside the plane, with
// count_padding also those in the padding (a window may reach past even that, where the output's size was rounded up).
template <typename I>
__device__ __forceinline__ I pool_divisor(I top, I left, I height, I width) {
<% if count_padding %>
    const I rows = minimum(top + << kernel[0] >>, height + << padding[0] >>) - top;
    const I columns = minimum(left + << kernel[1] >>, width + << padding[1] >>) - left;
<% else %>
    const I rows = minimum(top + << kernel[0] >>, height) - maximum(top, I(0));
    const I columns = minimum(left + << kernel[1] >>, width) - maximum(left, I(0));
<% endif %>
    return rows * columns;
}
