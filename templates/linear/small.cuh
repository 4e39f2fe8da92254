// Gaussian elimination with row exchanges (LU decomposition) of matrices of at most 32 rows, in shared memory: a group of
// `lanes` threads of a warp has a matrix, each of them a row.
<% include "prelude/reduce.cuh" %>
<% include "linear/pivot.cuh" %>
using T = << elem >>;
constexpr int block = << block >>, lanes = << lanes >>, groups = block / lanes;
using Tile = T[lanes][lanes + 1];

// Put the rows of `a` (n, n), in C order, into the tile of the group.
__device__ __forceinline__ void load(Tile& tile, const T* a, int n) {
    const int lane = threadIdx.x % lanes;
    if (lane < n)
        for (int row = 0; row < n; ++row) tile[row][lane] = a[row * n + lane];
    __syncwarp();
}

struct Decomposed {
    // The row that exchanges bring to the place of this thread, and whether they are odd.
    int row;
    bool odd;
};

// Leave L below the diagonal and U in each row, rows where they are. A zero pivot leaves its column as it is.
__device__ __forceinline__ Decomposed decompose(Tile& tile, int n) {
    const int lane = threadIdx.x % lanes;
    int place = lane;
    Decomposed result{lane, false};
    for (int j = 0; j < n; ++j) {
        const bool open = place >= j && lane < n;
        // The largest number, and the place and the thread of its row; of equal ones the first place.
        Indexed<Size, int> best{open ? size_of(tile[lane][j]) : Size(-1), place * lanes + lane};
#pragma unroll
        for (int distance = lanes / 2; distance > 0; distance /= 2) {
            const Indexed<Size, int> other = shuffle_xor(best, distance);
            if (other.value > best.value || (other.value == best.value && other.at < best.at)) best = other;
        }
        const int chosen = best.at % lanes, from = best.at / lanes;
        result.odd ^= from != j;
        if (lane == j) result.row = chosen;
        if (place == j) place = from;
        if (lane == chosen) place = j;
        if (open && lane != chosen) {
            const T pivot = tile[chosen][j];
            T factor = tile[lane][j];
            if (size_of(pivot) != Size(0)) factor = factor / pivot;
            tile[lane][j] = factor;
#pragma unroll 4
            for (int c = j + 1; c < n; ++c) tile[lane][c] -= factor * tile[chosen][c];
        }
        __syncwarp();
    }
    return result;
}
