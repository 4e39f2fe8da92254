// Up to `capacity` arrays in one launch, each cut into pieces of `piece` elements, of which a block has one.
constexpr int block = << block >>, capacity = << capacity >>, piece_size = << piece >>;

// The addresses of the arrays, which are a parameter itself, or on the host in memory.
<% macro table(type) %><< "const __grid_constant__ Table<%s>" % type if block > 1 else type ~ "**" >><% endmacro %>
template <typename T>
struct Table {
    T* of[capacity];

    __device__ __forceinline__ T* operator[](int k) const { return of[k]; }
};

// `first` numbers the block that begins each array; where there is no array it is larger than any block's number.
struct Sizes {
    long long size[capacity];
    int first[capacity], pieces;
};

// The elements start <= i < start + size of an array.
struct Piece {
    int array;
    long long start;
    int size;
};
__device__ __forceinline__ Piece piece_of(int number, const Sizes& sizes) {
    int array = 0;
#pragma unroll
    for (int step = capacity <= 8 ? 4 : capacity <= 128 ? 64 : 128; step > 0; step /= 2)
        if (array + step < capacity && sizes.first[array + step] <= number) array += step;
    const long long start = (long long)(number - sizes.first[array]) * piece_size, rest = sizes.size[array] - start;
    return {array, start, (int)(rest < piece_size ? rest : piece_size)};
}

// Whether memory may be read by the widest accesses, as far as the start of a piece goes.
__device__ __forceinline__ bool is_aligned(const void* at) { return (unsigned long long)at % 16 == 0; }
