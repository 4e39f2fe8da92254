// Which of two values with the same index is kept.
using acc = << acc >>;

// Whether a value replaces the << mode >> so far: of equal ones the first is kept, and the first NaN.
__device__ __forceinline__ bool better(acc value, acc best) {
    return best == best && (value != value || value << "<" if mode == "min" else ">" >> best);
}
