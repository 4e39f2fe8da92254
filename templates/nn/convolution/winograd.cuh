// Planes of an array, a channel of an image each, the tiles in them, and the transforms of those tiles. A tile's transform is
// A tile A^T with the matrix A of points rows, of which each of the points * points elements lies in a matrix of its own.
using acc = << acc >>;
constexpr int block = << block >>;
constexpr int points = 6, size = << size >>, step = << step >>;  // of a transform; rows of a tile, and from tile to tile
constexpr bool last = << last | lower >>;  // neighbouring threads have neighbouring channels, not neighbouring tiles
constexpr bool packs = << packs | lower >>;  // four elements of a row lie together and are aligned, from each tile's << first >>th on
<% include "lib/divisor.cuh" %>

struct Planes {
    index batch, channel, at[2], first;    // strides of the planes, and the first element, in elements
    int height, width, top, left;          // of a plane; where the first tile begins
    int tiles, count;                      // of all planes of a channel; threads
    int point, part, channel_to, tile_to;  // strides of the transforms
    int parts;                             // into which tiles are cut
    Divisor inner, each, across, down;     // channels or tiles; tiles of a part; tiles along a row, and along a column
};

// The channel and the number of the tile of a thread.
struct Place {
    int channel, tile;

    __device__ __forceinline__ Place(const Planes& g, int thread) {
        const int inner = g.inner.take(thread);
        channel = last ? inner : thread;
        tile = last ? thread : inner;
    }
};
// Where a tile begins: the first element of its plane, and its place there.
struct Corner {
    index plane;
    int top, left;

    __device__ __forceinline__ Corner(const Planes& g, const Place& place) {
        int image = place.tile;
        left = g.across.take(image) * step + g.left;
        top = g.down.take(image) * step + g.top;
        plane = g.first + image * g.batch + place.channel * g.channel;
    }
};
