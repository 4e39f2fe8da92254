// A single thread, with `across` columns. In a single column it combines `along` elements at a time with those after them,
// which compilers vectorize.
constexpr int threads = 1;

__device__ __forceinline__ index own_column() { return 0; }

struct Fold {
    acc at[across];
    int columns;
    bool any;

    // Of no rows; with as many columns as are left.
    __device__ __forceinline__ static Fold none(index left) {
        Fold result;
        result.columns = int(minimum(index(across), left));
        result.any = false;
        return result;
    }
    template <bool parts, typename Row>
    __device__ __forceinline__ void take(const Row* __restrict__ rows, index first, index last, index inner) {
        index j = first;
        if (single && along > 1 && last - first >= 2 * along) {
            acc part[along];
            for (int w = 0; w < along; ++w) part[w] = value_of<parts>(rows[j + w]);
            for (j += along; j + along <= last; j += along)
                for (int w = 0; w < along; ++w) part[w] = join(part[w], value_of<parts>(rows[j + w]));
            for (int half = along / 2; half > 0; half /= 2)
                for (int w = 0; w < half; ++w) part[w] = join(part[w], part[w + half]);
            at[0] = any ? join(at[0], part[0]) : part[0];
            any = true;
        }
        const int width = single ? 1 : columns;
        for (; j < last; ++j) {
            const Row* const row = rows + (long long)j * inner;
            if (any)
                for (int w = 0; w < width; ++w) at[w] = join(at[w], value_of<parts>(row[w]));
            else
                for (int w = 0; w < width; ++w) at[w] = value_of<parts>(row[w]);
            any = true;
        }
    }
    __device__ __forceinline__ void share() {}
    template <typename Row>
    __device__ __forceinline__ void store(Row* row) const {
        for (int w = 0; w < (single ? 1 : columns); ++w) row[w] = cast<Row>(at[w]);
    }
};
