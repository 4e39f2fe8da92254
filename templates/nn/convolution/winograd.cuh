// Planes of an array, a channel of an image each, the tiles in them, and the transforms of those tiles. A tile's transform is
// A tile A^T with the matrix A of points rows, of which each of the points * points elements lies in a matrix of its own.
using acc = << acc >>;
constexpr int block = << block >>;
constexpr int points = 6, size = << size >>, step = << step >>;  // of a transform; rows of a tile, and from tile to tile
constexpr bool last = << last | lower >>;  // neighbouring threads have neighbouring channels, not neighbouring tiles
constexpr bool packs = << packs | lower >>;  // four elements of a row lie together and are aligned, from each tile's << first >>th on
<% include "lib/divisor.cuh" %>

// Strides of the planes along the batch, the channels, rows and columns, and the first element, in elements; rows and columns of a
// plane; where the first tile begins; tiles of all planes of a channel; threads. Of the transforms: strides from a point, a part, a
// channel and a tile to the next, and the parts. Divisors by the channels or tiles that threads count fastest, by the tiles of a part,
// and by those along a row and along a column.
<< Planes >>

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
