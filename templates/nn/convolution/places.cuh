// Images (planes, height, width) and the places of windows in them: rows (planes * taps, windows).
using T = << elem >>;
using index = << index >>;
constexpr int block = << block >>;
// Sizes of an image; how many windows there are, down and across; the windows.
<< Windows >>
