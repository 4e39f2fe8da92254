// How windows lie on a plane, and what the pooling kernels know of them when they are compiled.
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
using size = unsigned << index >>;
using Place = << winner >>;
struct Kernel { static constexpr int rows = << kernel[0] >>, columns = << kernel[1] >>, places = rows * columns; };
struct Stride { static constexpr int rows = << stride[0] >>, columns = << stride[1] >>; };
struct Padding { static constexpr int rows = << padding[0] >>, columns = << padding[1] >>; };
struct Dilation { static constexpr int rows = << dilation[0] >>, columns = << dilation[1] >>; };
// The positions from a window's first place to its last.
struct Reach {
    static constexpr int rows = (Kernel::rows - 1) * Dilation::rows, columns = (Kernel::columns - 1) * Dilation::columns;
};
constexpr bool largest = << (kind == "maximum") | lower >>, count_padding = << count_padding | lower >>;
constexpr int no_winner = << no_winner >>;

// What the sum over the window that starts at (top, left) is divided by: its positions inside the plane, with
// count_padding also those in the padding (a window may reach past even that, where the output's size was rounded up).
__device__ __forceinline__ index divisor(index top, index left, index height, index width) {
    const index bottom = top + Kernel::rows, right = left + Kernel::columns;
    if constexpr (count_padding)
        return (minimum(bottom, height + Padding::rows) - top) * (minimum(right, width + Padding::columns) - left);
    return (minimum(bottom, height) - maximum(top, index(0))) * (minimum(right, width) - maximum(left, index(0)));
}
