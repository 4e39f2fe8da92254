// Which of two values of one place stays.
using acc = << acc >>;

// Whether a value takes the place of the << mode >> before it: of equal ones the first stays, and the first NaN.
__device__ __forceinline__ bool better(acc value, acc best) {
    return best == best && (value != value || value << "<" if mode == "min" else ">" >> best);
}
