// Fragments of nvcuda::wmma: as many elements a lane as on a GPU, which says as little of which ones these are.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define CUKERN_WMMA template <class Use, int m, int n, int k, class T, class Layout>
#define CUKERN_WMMA_INLINE inline __attribute__((always_inline))

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}
namespace details {
template <class T>
struct Stored {
    using type = T;
    static constexpr int least = sizeof(T) == 2 ? 16 : 1;  // elements a lane: those of 16 bits are in two lanes
};
template <>
struct Stored<precision::tf32> {
    using type = float;
    static constexpr int least = 1;
};
template <class Use, int m, int n, int k>
struct Shape {
    static constexpr bool sums = true;
    static constexpr int rows = m, columns = n;
};
template <int m, int n, int k>
struct Shape<matrix_a, m, n, k> {
    static constexpr bool sums = false;
    static constexpr int rows = m, columns = k;
};
template <int m, int n, int k>
struct Shape<matrix_b, m, n, k> {
    static constexpr bool sums = false;
    static constexpr int rows = k, columns = n;
};
constexpr bool is_shape(int m, int n, int k, unsigned bytes) {
    if (bytes == 8) return m == 8 && n == 8 && k == 4;
    if (bytes == 4) return m == 16 && n == 16 && k == 8;
    return k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
}
}  // namespace details

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment : public details::Shape<Use, m, n, k> {
    using Of = details::Shape<Use, m, n, k>;
    static constexpr int even = Of::rows * Of::columns / 32;

   public:
    static_assert(Of::sums || details::is_shape(m, n, k, sizeof(typename details::Stored<T>::type)),
                  "cukern's host: wmma has no such shape for this type");
    static_assert(Of::sums || !__is_same(Layout, void), "wmma: a factor's fragment is row_major or col_major");
    using element_type = typename details::Stored<T>::type;
    using storage_element_type = element_type;
    static constexpr int num_elements = Of::sums || even > details::Stored<T>::least ? even : details::Stored<T>::least;
    static constexpr int num_storage_elements = num_elements;
    static constexpr bool is_tf32 = __is_same(T, precision::tf32), by_columns = __is_same(Layout, col_major);
    element_type x[num_elements];
    // The row and the column of an element of a lane.
    static int row(unsigned lane, int i) { return place(lane, i) / Of::columns; }
    static int column(unsigned lane, int i) { return place(lane, i) % Of::columns; }

   private:
    static int place(unsigned lane, int i) { return (int)(lane * num_elements + i) % (Of::rows * Of::columns); }
};

namespace details {
inline void nothing(const unsigned long long*) {}
// All lanes come together. CUDA asks for matrices at multiples of 32 bytes, of which the host's arrays are at multiples of 16.
template <class T>
inline unsigned meet(const char* name, const T* at, unsigned stride, const char* file, int line) {
    if (((unsigned long long)at | stride * sizeof(T)) % 16)
        cukern::fault("wmma: a matrix in memory, or one of its rows or columns, begins at no multiple of 16 bytes", file, line);
    cukern::together(name, nothing, nullptr, file, line);
    return cukern::thread_rank() % 32;
}
// The type of sums: of integers, and of floats.
template <bool whole>
struct Number {
    using type = long long;
};
template <>
struct Number<false> {
    using type = double;
};
struct Product {
    void* d;
    const void *a, *b, *c;
    bool saturates;
};
template <class D, class A, class B, class C>
void multiply(const unsigned long long* lanes) {
    constexpr bool whole = sizeof(typename A::element_type) == 1;
    using Sum = typename Number<whole>::type;
    if (!whole) cukern::note_product(A::rows, B::columns, A::columns, 8 * (int)sizeof(typename A::element_type));
    Sum a[A::rows][A::columns], b[B::rows][B::columns], c[C::rows][C::columns];
    const auto factor = [](auto x, bool is_tf32) {
        if (is_tf32) return (Sum)cukern::bits_as<float>(cukern::bits_as<unsigned>((float)x) & ~0x1fffu);
        if constexpr (sizeof(x) == 2) return (Sum)(float)x;
        else return (Sum)x;
    };
    for (unsigned lane = 0; lane < 32; ++lane) {
        const Product& own = *(const Product*)lanes[lane];
        for (int i = 0; i < A::num_elements; ++i)
            a[A::row(lane, i)][A::column(lane, i)] = factor(((const A*)own.a)->x[i], A::is_tf32);
        for (int i = 0; i < B::num_elements; ++i)
            b[B::row(lane, i)][B::column(lane, i)] = factor(((const B*)own.b)->x[i], B::is_tf32);
        for (int i = 0; i < C::num_elements; ++i) c[C::row(lane, i)][C::column(lane, i)] = factor(((const C*)own.c)->x[i], false);
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
        const Product& own = *(const Product*)lanes[lane];
        for (int i = 0; i < D::num_elements; ++i) {
            const int row = D::row(lane, i), column = D::column(lane, i);
            Sum sum = c[row][column];
            for (int j = 0; j < A::columns; ++j) sum += a[row][j] * b[j][column];
            if (whole && own.saturates) sum = sum < -2147483647 - 1 ? -2147483647 - 1 : sum > 2147483647 ? 2147483647 : sum;
            ((D*)own.d)->x[i] = (typename D::element_type)sum;
        }
    }
}
}  // namespace details

CUKERN_WMMA
CUKERN_WMMA_INLINE void load_matrix_sync(
    fragment<Use, m, n, k, T, Layout>& to, const typename details::Stored<T>::type* from, unsigned stride, CUKERN_HERE) {
    using Fragment = fragment<Use, m, n, k, T, Layout>;
    const unsigned lane = details::meet("load_matrix_sync", from, stride, file, line);
    for (int i = 0; i < to.num_elements; ++i) {
        const unsigned row = Fragment::row(lane, i), column = Fragment::column(lane, i);
        to.x[i] = from[Fragment::by_columns ? column * stride + row : row * stride + column];
    }
}
template <int m, int n, int k, class T>
CUKERN_WMMA_INLINE void load_matrix_sync(
    fragment<accumulator, m, n, k, T>& to, const T* from, unsigned stride, layout_t layout, CUKERN_HERE) {
    using Fragment = fragment<accumulator, m, n, k, T>;
    const unsigned lane = details::meet("load_matrix_sync", from, stride, file, line);
    for (int i = 0; i < to.num_elements; ++i) {
        const unsigned row = Fragment::row(lane, i), column = Fragment::column(lane, i);
        to.x[i] = from[layout == mem_col_major ? column * stride + row : row * stride + column];
    }
}
template <int m, int n, int k, class T>
CUKERN_WMMA_INLINE void store_matrix_sync(
    T* to, const fragment<accumulator, m, n, k, T>& from, unsigned stride, layout_t layout, CUKERN_HERE) {
    using Fragment = fragment<accumulator, m, n, k, T>;
    const unsigned lane = details::meet("store_matrix_sync", to, stride, file, line);
    for (int i = 0; i < from.num_elements; ++i) {
        const unsigned row = Fragment::row(lane, i), column = Fragment::column(lane, i);
        to[layout == mem_col_major ? column * stride + row : row * stride + column] = from.x[i];
    }
}
CUKERN_WMMA
inline void fill_fragment(fragment<Use, m, n, k, T, Layout>& to, const typename details::Stored<T>::type& value) {
    for (int i = 0; i < to.num_elements; ++i) to.x[i] = value;
}
template <int m, int n, int k, class D, class A, class OfA, class B, class OfB, class C>
inline void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, A, OfA>& a,
                     const fragment<matrix_b, m, n, k, B, OfB>& b, const fragment<accumulator, m, n, k, C>& c,
                     bool saturates = false, CUKERN_HERE) {
    using Of = fragment<accumulator, m, n, k, D>;
    const details::Product own{&d, &a, &b, &c, saturates};
    cukern::together("mma_sync", details::multiply<Of, fragment<matrix_a, m, n, k, A, OfA>, fragment<matrix_b, m, n, k, B, OfB>,
                                                   fragment<accumulator, m, n, k, C>>, (void*)&own, file, line);
}
inline float __float_to_tf32(float x) { return cukern::bits_as<float>(cukern::tf32_bits(x, 2)); }
}  // namespace wmma
}  // namespace nvcuda
#undef CUKERN_WMMA
#undef CUKERN_WMMA_INLINE
