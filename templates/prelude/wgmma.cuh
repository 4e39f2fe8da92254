// Products of large matrices by the tensor cores of sm_90a: instructions of a warpgroup, which is four warps of which the
// first has a rank divisible by four. They run beside the threads: from wgmma on to the wgmma_wait that covers it nobody may
// touch d, or write the matrices. Source: PTX ISA, asynchronous warpgroup level matrix instructions.
//
// Lane 4 * g + q of warp w has, of D (64, N) in float, in d[i]
//   row 16 * w + g + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 * q + i % 2
<% include "prelude/async_proxy.cuh" %>
#ifdef __CUDACC__

// A matrix of 16-bit elements in shared memory, in lines of 128 bytes whose chunks of 16 bytes change places: chunk c of the
// line at an address lies at c ^ (address / 128 % 8). A line is a row along the depth, or part of a column across it.
// `stride` bytes lie between groups of eight lines, `leading` between blocks of 128 bytes across the depth (no matter along it).
struct SharedMatrix {
    unsigned long long bits;

    __device__ __forceinline__ SharedMatrix(const void* first, int leading, int stride) {
        bits = field((unsigned)__cvta_generic_to_shared(first), 0) | field(leading, 16) | field(stride, 32) | shl(1ull, 62);
    }
    static __device__ __forceinline__ unsigned long long field(unsigned bytes, int at) {
        return shl((unsigned long long)((bytes & 0x3ffff) / 16), at);
    }
    // The matrix that begins so many bytes later, before chunks change places.
    __device__ __forceinline__ SharedMatrix& operator+=(int bytes) {
        bits += bytes / 16;
        return *this;
    }
};

// d = a @ b, added to d if `add`, for A (64, 16) and B (16, N) of T, __half or __nv_bfloat16.
template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], SharedMatrix a, SharedMatrix b, bool add) {
    static_assert(is_float16<T> || is_bfloat16<T>, "wgmma: T is __half or __nv_bfloat16");
<% for columns in wgmma_columns | default([64, 128, 256]) %>
<% set n = columns // 2 %>
    if constexpr (N == << columns >>) {
#define CUKERN_WGMMA(type)                                                                                       \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, %<< n + 2 >>, 0; "                                          \
        "wgmma.mma_async.sync.aligned.m64n<< columns >>k16.f32." type "." type " "                               \
        "{<% for i in range(n) %>%<< i >><< ", " if not loop.last >><% endfor %>}, "                             \
        "%<< n >>, %<< n + 1 >>, add, 1, 1, %<< n + 3 >>, %<< n + 4 >>; }"                                       \
        : <% for i in range(n) %>"+f"(d[<< i >>])<< ", " if not loop.last >><% endfor %>                         \
        : "l"(a.bits), "l"(b.bits), "r"((int)add), "n"(int(!A_BY_DEPTH)), "n"(int(!B_BY_DEPTH)))
        if constexpr (is_float16<T>) CUKERN_WGMMA("f16");
        else CUKERN_WGMMA("bf16");
#undef CUKERN_WGMMA
    }
<% endfor %>
}
// Before the first wgmma, and after registers of d have been touched.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// What was sent since the last commit is a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits for all but the last LEFT groups, to which d belongs if LEFT is 0.
template <int LEFT, int N>
__device__ __forceinline__ void wgmma_wait(float (&d)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
    if constexpr (LEFT == 0) {
#pragma unroll
        for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
    }
}

#else

struct SharedMatrix {
    const char* first;
    int leading, stride;

    SharedMatrix(const void* first, int leading, int stride) : first((const char*)first), leading(leading), stride(stride) {}
    SharedMatrix& operator+=(int bytes) {
        first += bytes;
        return *this;
    }
    // The element at a place across the depth.
    template <typename T, bool BY_DEPTH>
    float element(int place, int depth) const {
        const int along = 2 * (BY_DEPTH ? depth : place), line = BY_DEPTH ? place : depth;
        unsigned long long at = (unsigned long long)first + line % 8 * 128 + line / 8 * stride;
        at += BY_DEPTH ? along : along % 128 + along / 128 * leading;
        return (float)*(const T*)(at ^ (at >> 3 & 0x70));
    }
};

namespace cukern {
struct WgmmaOperands {
    float* d;
    SharedMatrix a, b;
    bool add;
    unsigned warp;
    const char* file;
    int line;
};
template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
void multiply_now(const Operation* own) {
    const SharedMatrix &of_a = *(const SharedMatrix*)&own->words[33], &of_b = *(const SharedMatrix*)&own->words[36];
    const int warp = own->warp % 4;
    float a[16][16], b[N][16];
    for (int k = 0; k < 16; ++k) {
        for (int i = 0; i < 16; ++i) a[i][k] = of_a.element<T, A_BY_DEPTH>(16 * warp + i, k);
        for (int i = 0; i < N; ++i) b[i][k] = of_b.element<T, B_BY_DEPTH>(i, k);
    }
    for (int lane = 0; lane < 32; ++lane) {
        float* const d = (float*)own->words[lane];
        for (int i = 0; i < N / 2; ++i) {
            const float *row = a[lane / 4 + 8 * (i / 2 % 2)], *column = b[8 * (i / 4) + 2 * (lane % 4) + i % 2];
            double sum = own->words[32] ? d[i] : 0;
            for (int k = 0; k < 16; ++k) sum += (double)row[k] * column[k];
            d[i] = (float)sum;
        }
    }
}
// Each of the four warps by itself: nothing but a barrier makes them wait for each other.
template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
void wgmma_of_warp(const unsigned long long* lanes) {
    const WgmmaOperands& first = *(const WgmmaOperands*)lanes[0];
    Operation own{product_groups, first.warp, 0, nullptr, multiply_now<T, N, A_BY_DEPTH, B_BY_DEPTH>, "wgmma",
                  first.file, first.line, {}};
    for (int lane = 0; lane < 32; ++lane) own.words[lane] = (unsigned long long)((const WgmmaOperands*)lanes[lane])->d;
    own.words[32] = first.add;
    static_assert(sizeof(SharedMatrix) <= 24, "three words");
    __builtin_memcpy(&own.words[33], &first.a, sizeof first.a);
    __builtin_memcpy(&own.words[36], &first.b, sizeof first.b);
    runtime->send(&own);
}
}  // namespace cukern

template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
inline void wgmma(float (&d)[N / 2], SharedMatrix a, SharedMatrix b, bool add, CUKERN_HERE) {
    static_assert(is_float16<T> || is_bfloat16<T>, "wgmma: T is __half or __nv_bfloat16");
    cukern::WgmmaOperands own{d, a, b, add, cukern::thread_rank() / 32, file, line};
    cukern::together("wgmma", cukern::wgmma_of_warp<T, N, A_BY_DEPTH, B_BY_DEPTH>, &own, file, line);
}
inline void wgmma_fence() {}
inline void wgmma_commit() { cukern::runtime->commit(cukern::product_groups); }
template <int LEFT, int N>
inline void wgmma_wait(float (&)[N]) {
    cukern::runtime->finish(cukern::product_groups, LEFT, false);
}

#endif
