// Images (planes, height, width) and the places of windows in them: rows (planes * taps, windows).
using T = << elem >>;
using index = << index >>;
constexpr int block = << block >>;
struct Windows {
    int height, width, down, across;    // of an image; how many windows there are
    int kernel[2], stride[2], padding[2], dilation[2];
};
