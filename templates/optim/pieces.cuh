// Up to << capacity >> arrays in one launch, each cut into pieces of << piece >> elements, of which a block has one.
// `first` numbers the block that begins each array; where there is no array it is larger than any block's number.
<% include "prelude/packs.cuh" %>
struct Sizes {
    long long size[<< capacity >>];
    int first[<< capacity >>];
};

// The elements start <= i < start + size of an array.
struct Piece {
    int array;
    long long start;
    int size;
};

__device__ __forceinline__ Piece own_piece(const Sizes& sizes) {
    const int number = (int)blockIdx.x;
    int array = 0;
<% set steps = [64, 32, 16, 8, 4, 2, 1] if capacity <= 128 else [128, 64, 32, 16, 8, 4, 2, 1] %>
<% for step in steps if step < capacity %>
    if (array + << step >> < << capacity >> && sizes.first[array + << step >>] <= number) array += << step >>;
<% endfor %>
    const long long start = (long long)(number - sizes.first[array]) * << piece >>, rest = sizes.size[array] - start;
    return {array, start, (int)(rest < << piece >> ? rest : << piece >>)};
}

// Whether memory may be read by the widest accesses, as far as the start of a piece goes.
__device__ __forceinline__ bool is_aligned(const void* at) { return (unsigned long long)at % 16 == 0; }
