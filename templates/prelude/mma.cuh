// Products of small matrices by the tensor cores, and what brings their operands from shared memory: each function is one
// instruction of a whole warp, which all 32 lanes call together (sm_80 and up; e4m3 sm_89, store_matrices sm_90 and up).
//
// Lane 4 * g + q of a warp holds, of matrices with 16 rows of A, 8 columns of B and K = 32 / sizeof(T) elements in between,
//   in word i of A       row g + 8 * (i % 2), from element (K / 2) * (i / 2) + q * (4 / sizeof(T)) on
//   in word i of B       column g, from element (K / 2) * i + q * (4 / sizeof(T)) on
//   in element i of D    row g + 8 * (i / 2), column 2 * q + i % 2
// A word has as many elements as fit, the first in its low bits. Source: PTX ISA, mma, ldmatrix, stmatrix.
// The order of the sums, and how they are rounded, is not said there.
#ifndef CUKERN_MMA
#define CUKERN_MMA
<% include "prelude/tensor_types.cuh" %>
#ifdef __CUDACC__

// d += a * b. T is __half, __nv_bfloat16, E4M3, or float for tf32, whose low 13 bits are left out: see as_tf32.
template <typename T>
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#define CUKERN_MULTIPLY(shape, type)                                                                             \
    asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 "                                          \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                        \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                         \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
    static_assert(is_tensor_type<T>, "mma: T is __half, __nv_bfloat16, float or E4M3");
    if constexpr (is_float16<T>) CUKERN_MULTIPLY("m16n8k16", "f16");
    else if constexpr (is_bfloat16<T>) CUKERN_MULTIPLY("m16n8k16", "bf16");
    else if constexpr (is_e4m3<T>) CUKERN_MULTIPLY("m16n8k32", "e4m3");
    else CUKERN_MULTIPLY("m16n8k8", "tf32");
#undef CUKERN_MULTIPLY
}

// N = 1, 2 or 4 matrices of 8 by 8 elements of 16 bits, from shared memory. Lanes 8 * i to 8 * i + 7 give the rows of matrix
// i, each of 16 bytes and aligned to them. Lane 4 * g + q gets, of row g, elements 2 * q and 2 * q + 1; transposed, of column
// g, those of rows 2 * q and 2 * q + 1.
#define CUKERN_LOAD(name, trans)                                                                                 \
    template <int N>                                                                                             \
    __device__ __forceinline__ void name(unsigned (&to)[N], const void* row) {                                   \
        const unsigned at = (unsigned)__cvta_generic_to_shared(row);                                             \
        if constexpr (N == 1)                                                                                    \
            asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"                         \
                         : "=r"(to[0]) : "r"(at) : "memory");                                                    \
        else if constexpr (N == 2)                                                                               \
            asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"                     \
                         : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");                                       \
        else                                                                                                     \
            asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"             \
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");             \
    }
CUKERN_LOAD(load_matrices, "")
CUKERN_LOAD(load_matrices_transposed, ".trans")
#undef CUKERN_LOAD

// The same the other way, to shared memory.
#define CUKERN_STORE(name, trans)                                                                                \
    template <int N>                                                                                             \
    __device__ __forceinline__ void name(void* row, const unsigned (&from)[N]) {                                 \
        const unsigned at = (unsigned)__cvta_generic_to_shared(row);                                             \
        if constexpr (N == 1)                                                                                    \
            asm volatile("stmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 [%0], {%1};"                         \
                         ::"r"(at), "r"(from[0]) : "memory");                                                    \
        else if constexpr (N == 2)                                                                               \
            asm volatile("stmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 [%0], {%1, %2};"                     \
                         ::"r"(at), "r"(from[0]), "r"(from[1]) : "memory");                                      \
        else                                                                                                     \
            asm volatile("stmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 [%0], {%1, %2, %3, %4};"             \
                         ::"r"(at), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory");          \
    }
CUKERN_STORE(store_matrices, "")
CUKERN_STORE(store_matrices_transposed, ".trans")
#undef CUKERN_STORE

#else

namespace cukern {
struct MmaOperands {
    float* d;
    const unsigned *a, *b;
};
template <typename T>
void mma_of_warp(const unsigned long long* lanes) {
    constexpr int parts = 4 / sizeof(T), k_end = 8 * parts;
    note_product(16, 8, k_end, 8 * sizeof(T));
    float a[16][k_end], b[8][k_end];
    for (int lane = 0; lane < 32; ++lane) {
        const MmaOperands* own = (const MmaOperands*)lanes[lane];
        spread_words<T>(a, lane, own->a);
        for (int i = 0; i < 8 / (int)sizeof(T); ++i)
            b[lane / 4][i / parts * 4 * parts + lane % 4 * parts + i % parts] =
                factor_of<T>((const char*)own->b + i * sizeof(T));
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            float& d = ((const MmaOperands*)lanes[lane])->d[i];
            d = (float)with_products(d, a[lane / 4 + 8 * (i / 2)], b[2 * (lane % 4) + i % 2]);
        }
}

struct Matrices {
    unsigned* words;
    unsigned short* row;
};
template <int N, bool stores, bool transposed>
void move_matrices(const unsigned long long* lanes) {
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < N; ++i) {
            unsigned& word = ((const Matrices*)lanes[lane])->words[i];
            if (!stores) word = 0;
            for (int part = 0; part < 2; ++part) {
                const int here = lane / 4, along = 2 * (lane % 4) + part;
                const unsigned short* first = ((const Matrices*)lanes[8 * i + (transposed ? along : here)])->row;
                unsigned short& element = const_cast<unsigned short*>(first)[transposed ? here : along];
                if (stores) element = (unsigned short)(word >> 16 * part);
                else word |= (unsigned)element << "<<" >> 16 * part;
            }
        }
}
template <int N, bool stores, bool transposed>
void move_matrices(const char* name, unsigned* words, const void* row, const char* file, int line) {
    static_assert(N == 1 || N == 2 || N == 4, "1, 2 or 4 matrices");
    if (thread_rank() % 32 < 8 * N && (unsigned long long)row % 16)
        fault("the address of a matrix's row is no multiple of 16 bytes", file, line);
    Matrices own{words, (unsigned short*)row};
    together(name, move_matrices<N, stores, transposed>, &own, file, line);
}
}  // namespace cukern

template <typename T>
inline void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], CUKERN_HERE) {
    static_assert(is_tensor_type<T>, "mma: T is __half, __nv_bfloat16, float or E4M3");
    cukern::MmaOperands own{d, a, b};
    const char* name = is_tf32<T> ? "mma<float>" : is_e4m3<T> ? "mma<E4M3>" : is_float16<T> ? "mma<__half>" : "mma<__nv_bfloat16>";
    cukern::together(name, cukern::mma_of_warp<T>, &own, file, line);
}
template <int N>
inline void load_matrices(unsigned (&to)[N], const void* row, CUKERN_HERE) {
    cukern::move_matrices<N, false, false>("load_matrices", to, row, file, line);
}
template <int N>
inline void load_matrices_transposed(unsigned (&to)[N], const void* row, CUKERN_HERE) {
    cukern::move_matrices<N, false, true>("load_matrices_transposed", to, row, file, line);
}
template <int N>
inline void store_matrices(void* row, const unsigned (&from)[N], CUKERN_HERE) {
    cukern::move_matrices<N, true, false>("store_matrices", const_cast<unsigned*>(from), row, file, line);
}
template <int N>
inline void store_matrices_transposed(void* row, const unsigned (&from)[N], CUKERN_HERE) {
    cukern::move_matrices<N, true, true>("store_matrices_transposed", const_cast<unsigned*>(from), row, file, line);
}

#endif
#endif  // CUKERN_MMA
