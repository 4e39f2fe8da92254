// Arrays of any strides. What an array steps by along an axis belongs to its type: 1, 0 or any number, in elements.
enum class Step { zero, unit, any };
template <Step kind>
__device__ __forceinline__ index stepped(index places, index step) {
    return kind == Step::unit ? places : kind == Step::zero ? index(0) : index(places * step);
}

// A part of an array: its rows lie along one axis, and columns, if it has any, along another.
template <typename T, Step along, Step across = Step::zero>
struct Strided {
    T* data;
    index offset, step, column;

    __device__ __forceinline__ T& at(index r, index c = 0) const {
        return data[offset + stepped<along>(r, step) + stepped<across>(c, column)];
    }
};

// Moves the offsets of some arrays to place `at` of some axes, the places numbered in C order.
template <int arrays, int axes>
__device__ __forceinline__ void advance(
    index (&offset)[arrays], index at, const index (&shape)[axes], const index (&step)[arrays][axes])
{
#pragma unroll
    for (int axis = axes - 1; axis >= 0; --axis) {
#pragma unroll
        for (int k = 0; k < arrays; ++k) offset[k] += (axis ? at % shape[axis] : at) * step[k][axis];
        if (axis) at /= shape[axis];
    }
}
