// Common to the GEMMs on tensor cores: sizes, and the order of tiles.
<% include "linear/tile.cuh" %>
// The sizes of the product; strides of the factors in elements, through the batch and between their contiguous rows.
<< TiledSizes >>
struct Sizes : TiledSizes {
    __device__ __forceinline__ index row(int of_d) const { return (index)of_d * n; }
};

// The coordinates of a tile. Tiles are numbered column by column in bands of rows, so that concurrent ones share factors in
// the L2.
struct Place {
    int batch, m0, n0;

    __device__ __forceinline__ Place(const Sizes& sizes, int batch, int number) : batch(batch) {
        const int in_band = band * sizes.tiles_n, first = number / in_band * band;
        const int rows = min(band, sizes.tiles_m - first), place = number % in_band;
        m0 = (first + place % rows) * tile_m;
        n0 = place / rows * tile_n;
    }
};
<% include "linear/ends.cuh" %>
