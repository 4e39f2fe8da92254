// The operands of matmul_add_relu: views with the batch's axes first, of any strides, 0 where an operand is broadcast.
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
constexpr int axes = << batch_ndim + 2 >>;
using Operand = View<const T, axes>;

// The operands' matrices of one batch.
struct Matrices {
    const T *lhs, *rhs, *bias;

    __device__ __forceinline__ Matrices(const Operand& left, const Operand& right, const Operand& added, index batch) {
        long long lhs_start = 0, rhs_start = 0, bias_start = 0;
#pragma unroll
        for (int axis = axes - 3; axis >= 0; --axis) {
            const index position = batch % index(added.shape[axis]);
            batch /= index(added.shape[axis]);
            lhs_start += position * left.strides[axis];
            rhs_start += position * right.strides[axis];
            bias_start += position * added.strides[axis];
        }
        lhs = left.data + lhs_start;
        rhs = right.data + rhs_start;
        bias = added.data + bias_start;
    }
};
