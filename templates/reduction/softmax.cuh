// Softmax, its logarithm and their derivatives, by element: the inputs are x, or for a derivative the cotangent g of the
// result and the result y. A result is computed from the row's peak, its largest x, and the total of its terms.
// Row: the arrays, of any strides; rows are the positions of all axes but one, numbered in C order.
using T = << elem >>;
using A = << acc >>;
using index = << index >>;
// `divided`: a result is its term divided by the total.
constexpr bool forward = << forward | lower >>, divided = << (forward and not logs) | lower >>;
<% if forward %>
struct Element {
    A x;
};
__device__ __forceinline__ Element padding() { return {limits<A>::lowest()}; }
__device__ __forceinline__ A update_peak(A peak, Element e) { return maximum(peak, e.x); }
__device__ __forceinline__ A term(Element e, A peak) { return exp(e.x - peak); }
__device__ __forceinline__ A result(Element e, A peak, A total) {
    return << "(e.x - peak) - total" if logs else "exp(e.x - peak) / total" >>;
}
<% else %>
struct Element {
    A g, y;
};
__device__ __forceinline__ Element padding() { return {A(0), A(0)}; }
__device__ __forceinline__ A update_peak(A peak, Element) { return peak; }
__device__ __forceinline__ A term(Element e, A) { return << "e.g" if logs else "e.g * e.y" >>; }
__device__ __forceinline__ A result(Element e, A, A total) {
    return << "e.g - exp(e.y) * total" if logs else "e.y * (e.g - total)" >>;
}
<% endif %>
template <typename V>
__device__ __forceinline__ V finished(V total) { return << "log(total)" if forward and logs else "total" >>; }

// The reductions over the threads of a row: sums, and maxima.
using RowState = A;
__device__ __forceinline__ A row_join(A a, A b) { return a + b; }
struct Larger {
    __device__ __forceinline__ A operator()(A a, A b) const { return maximum(a, b); }
};

<% include "lib/strided.cuh" %>
constexpr int arrays = << arrays >>, kept = << kept >>;
// The result's steps are the last.
<< Layout >>
struct Row {
<% for k in range(arrays) %>
    Strided< << "T" if loop.last else "const T" >>, Step::<< steps[k] >>, Step::<< columns[k] >>> << "y" if loop.last else "x%d" % k >>;
<% endfor %>

    __device__ __forceinline__ Row(const T* x0_, << "const T* x1_, " if not forward >>T* y_, const Layout& layout, index row, index first = 0) {
        index offset[arrays];
#pragma unroll
        for (int k = 0; k < arrays; ++k) offset[k] = first * layout.column[k];
        advance(offset, row, layout.kept_shape, layout.kept_step);
<% for k in range(arrays) %>
<% set operand = "y" if loop.last else "x%d" % k %>
        << operand >> = {<< operand >>_, offset[<< k >>], layout.step[<< k >>], layout.column[<< k >>]};
<% endfor %>
    }
    __device__ __forceinline__ Element load(index r, index c = 0) const {
        return {cast<A>(x0.at(r, c))<< ", cast<A>(x1.at(r, c))" if not forward >>};
    }
};
