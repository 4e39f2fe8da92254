// Products of large matrices by the tensor cores of sm_90a: instructions of a warpgroup, which is four warps of which the
// first has a rank divisible by four. They run beside the threads: from wgmma on to the wgmma_wait that covers it nobody may
// touch d, or write the matrices. Source: PTX ISA, asynchronous warpgroup level matrix instructions.
//
// Lane 4 * g + q of warp w has, of D (64, N) in float, in d[i]
//   row 16 * w + g + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 * q + i % 2
#ifndef CUKERN_WGMMA
#define CUKERN_WGMMA
<% include "prelude/async_proxy.cuh" %>
<% include "prelude/tensor_types.cuh" %>
#ifdef __CUDACC__

// A matrix in shared memory, in lines of 128 bytes whose chunks of 16 bytes are swizzled: chunk c of the line at an address
// lies at c ^ (address / 128 % 8). A line is a row along the depth, or part of a column across it. The first of eight lines
// begins at a multiple of 1024 bytes, or at any line where stride is 1024, so that lines follow one another. `stride` bytes lie
// between groups of eight lines, `leading` between blocks of 128 bytes across the depth (no matter along it).
struct SharedMatrix {
    unsigned long long bits;

    __device__ __forceinline__ SharedMatrix(const void* first, int leading, int stride) {
        bits = field((unsigned)__cvta_generic_to_shared(first), 0) | field(leading, 16) | field(stride, 32) | shl(1ull, 62);
    }
    static __device__ __forceinline__ unsigned long long field(unsigned bytes, int at) {
        return shl((unsigned long long)((bytes & 0x3ffff) / 16), at);
    }
    // Bytes from the part that an instruction multiplies to the next one along the depth, within a line, or in lines of 16-bit elements.
    template <bool BY_DEPTH>
    static constexpr int step = BY_DEPTH ? 32 : 16 * 128;
    // The matrix that begins so many bytes later, before the swizzle.
    __device__ __forceinline__ SharedMatrix& operator+=(int bytes) {
        bits += bytes / 16;
        return *this;
    }
    // The same matrix, in registers of the warp, whose threads agree on it: it is not made again where it is used.
    __device__ __forceinline__ SharedMatrix in_register() const { return with_address(__shfl_sync(0xffffffffu, (unsigned)bits, 0)); }
    // The matrix that begins so many bytes later, as by +=, in fewer instructions where `bytes` is no constant.
    __device__ __forceinline__ SharedMatrix later(unsigned bytes) const { return with_address((unsigned)bits + bytes / 16); }
    __device__ __forceinline__ SharedMatrix with_address(unsigned low) const {
        SharedMatrix result = *this;
        result.bits = bits & 0xffffffff00000000ull | low;
        return result;
    }
};

<% for columns in wgmma_columns | default([64, 128, 256]) %>
<% set n = columns // 2 %>
#define CUKERN_D<< columns >> "{<% for i in range(n) %>%<< i >><< ", " if not loop.last >><% endfor %>}"
#define CUKERN_IN_OUT<< columns >> <% for i in range(n) %>"+f"(d[<< i >>])<< ", " if not loop.last >><% endfor %>

// With A of so many operands, which come after those of D, and after them B, the predicate and what `more` names.
#define CUKERN_WGMMA<< columns >>(depth, type, a, b, predicate, more, ...)                                        \
    asm volatile("{ .reg .pred add; setp.ne.b32 add, " predicate ", 0; wgmma.mma_async.sync.aligned.m64n<< columns >>k" \
                 depth ".f32." type "." type " " CUKERN_D<< columns >> ", " a ", " b ", add, 1, 1" more "; }"    \
                 : CUKERN_IN_OUT<< columns >> : __VA_ARGS__)
// With both matrices in shared memory, along a line: further ones begin so many chunks behind.
#define CUKERN_NEXT_WGMMA<< columns >>(depth, type, more)                                                         \
    "add.s64 a, a, %<< n + 3 >>; add.s64 b, b, %<< n + 4 >>; wgmma.mma_async.sync.aligned.m64n<< columns >>k"     \
    depth ".f32." type "." type " " CUKERN_D<< columns >> ", a, b, true, 1, 1" more "; "
#define CUKERN_WGMMA_LINE<< columns >>(depth, type, more, ...)                                                    \
    asm volatile("{ .reg .pred add, true; .reg .b64 a, b; setp.ne.b32 add, %<< n + 2 >>, 0; setp.eq.b32 true, 0, 0; " \
                 "mov.b64 a, %<< n >>; mov.b64 b, %<< n + 1 >>; wgmma.mma_async.sync.aligned.m64n<< columns >>k"  \
                 depth ".f32." type "." type " " CUKERN_D<< columns >> ", a, b, add, 1, 1" more "; "              \
                 CUKERN_NEXT_WGMMA<< columns >>(depth, type, more) CUKERN_NEXT_WGMMA<< columns >>(depth, type, more) \
                 CUKERN_NEXT_WGMMA<< columns >>(depth, type, more) "}"                                            \
                 : CUKERN_IN_OUT<< columns >> : __VA_ARGS__)
<% endfor %>

// d = a @ b, added to d if `add`, for A (64, K) and B (K, N) of T, where K is 32 / sizeof(T). T is __half, __nv_bfloat16, or,
// with both matrices by depth, E4M3 or float for tf32, whose low 13 bits are left out: see as_tf32.
template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], SharedMatrix a, SharedMatrix b, bool add) {
    static_assert(is_tensor_type<T>, "wgmma: T is __half, __nv_bfloat16, float or E4M3");
    static_assert(sizeof(T) == 2 || (A_BY_DEPTH && B_BY_DEPTH), "wgmma: matrices of this type lie by depth");
#define CUKERN_BY_TYPE(wgmma, a, b, predicate, more, ...)                                                        \
    if constexpr (is_float16<T>) wgmma("16", "f16", a, b, predicate, more, __VA_ARGS__, "n"(int(!A_BY_DEPTH)), "n"(int(!B_BY_DEPTH))); \
    else if constexpr (is_bfloat16<T>) wgmma("16", "bf16", a, b, predicate, more, __VA_ARGS__, "n"(int(!A_BY_DEPTH)), "n"(int(!B_BY_DEPTH))); \
    else if constexpr (is_e4m3<T>) wgmma("32", "e4m3", a, b, predicate, "", __VA_ARGS__);                        \
    else wgmma("8", "tf32", a, b, predicate, "", __VA_ARGS__)
<% for columns in wgmma_columns | default([64, 128, 256]) %>
<% set n = columns // 2 %>
    if constexpr (N == << columns >>) {
        CUKERN_BY_TYPE(CUKERN_WGMMA<< columns >>, "%<< n >>", "%<< n + 1 >>", "%<< n + 2 >>", ", %<< n + 3 >>, %<< n + 4 >>",
                       "l"(a.bits), "l"(b.bits), "r"((int)add));
    }
<% endfor %>
#undef CUKERN_BY_TYPE
}
// d = a @ b, added to d if `add`, for a depth of 128 bytes, a line of the matrices that lie by depth. It is four wgmmas in one
// statement, as NVRTC's time grows with how often statements name the registers of d.
template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ __forceinline__ void wgmma_line(float (&d)[N / 2], SharedMatrix a, SharedMatrix b, bool add) {
    static_assert(is_tensor_type<T>, "wgmma_line: T is __half, __nv_bfloat16, float or E4M3");
    static_assert(sizeof(T) == 2 || (A_BY_DEPTH && B_BY_DEPTH), "wgmma_line: matrices of this type lie by depth");
#define CUKERN_BY_TYPE(wgmma, more, ...)                                                                         \
    if constexpr (is_float16<T>) wgmma("16", "f16", more, __VA_ARGS__, "n"(int(!A_BY_DEPTH)), "n"(int(!B_BY_DEPTH))); \
    else if constexpr (is_bfloat16<T>) wgmma("16", "bf16", more, __VA_ARGS__, "n"(int(!A_BY_DEPTH)), "n"(int(!B_BY_DEPTH))); \
    else if constexpr (is_e4m3<T>) wgmma("32", "e4m3", "", __VA_ARGS__);                                         \
    else wgmma("8", "tf32", "", __VA_ARGS__)
<% for columns in wgmma_columns | default([64, 128, 256]) %>
<% set n = columns // 2 %>
    if constexpr (N == << columns >>) {
        CUKERN_BY_TYPE(CUKERN_WGMMA_LINE<< columns >>, ", %<< n + 5 >>, %<< n + 6 >>", "l"(a.bits), "l"(b.bits), "r"((int)add),
                       "n"(SharedMatrix::step<A_BY_DEPTH> / 16), "n"(SharedMatrix::step<B_BY_DEPTH> / 16));
    }
<% endfor %>
#undef CUKERN_BY_TYPE
}
// wgmma with A in registers: warp w of the four has its rows 16 * w to 16 * w + 15, in words as those of mma's A.
template <typename T, int N, bool B_BY_DEPTH>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], const unsigned (&a)[4], SharedMatrix b, bool add) {
    static_assert(is_tensor_type<T>, "wgmma: T is __half, __nv_bfloat16, float or E4M3");
    static_assert(sizeof(T) == 2 || B_BY_DEPTH, "wgmma: matrices of this type lie by depth");
#define CUKERN_BY_TYPE(wgmma, a, b, predicate, more, ...)                                                        \
    if constexpr (is_float16<T>) wgmma("16", "f16", a, b, predicate, more, __VA_ARGS__, "n"(int(!B_BY_DEPTH)));  \
    else if constexpr (is_bfloat16<T>) wgmma("16", "bf16", a, b, predicate, more, __VA_ARGS__, "n"(int(!B_BY_DEPTH))); \
    else if constexpr (is_e4m3<T>) wgmma("32", "e4m3", a, b, predicate, "", __VA_ARGS__);                        \
    else wgmma("8", "tf32", a, b, predicate, "", __VA_ARGS__)
<% for columns in wgmma_columns | default([64, 128, 256]) %>
<% set n = columns // 2 %>
    if constexpr (N == << columns >>) {
        CUKERN_BY_TYPE(CUKERN_WGMMA<< columns >>, "{%<< n >>, %<< n + 1 >>, %<< n + 2 >>, %<< n + 3 >>}", "%<< n + 4 >>",
                       "%<< n + 5 >>", ", %<< n + 6 >>", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"((int)add));
    }
<% endfor %>
#undef CUKERN_BY_TYPE
}
// Before the first wgmma, and after registers of d, or of A, have been touched.
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
// After a wait for all but later groups: d, of a group before those, may be read from here on.
template <int N>
__device__ __forceinline__ void wgmma_made(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#else

struct SharedMatrix {
    const char* first;
    int leading, stride;

    template <bool BY_DEPTH>
    static constexpr int step = BY_DEPTH ? 32 : 16 * 128;
    SharedMatrix(const void* first, int leading, int stride) : first((const char*)first), leading(leading), stride(stride) {}
    SharedMatrix& operator+=(int bytes) {
        first += bytes;
        return *this;
    }
    SharedMatrix in_register() const { return *this; }
    SharedMatrix later(unsigned bytes) const {
        SharedMatrix result = *this;
        return result += int(bytes);
    }
    // Where a byte of a line is.
    template <bool BY_DEPTH>
    const void* byte_of(int line, int along) const {
        unsigned long long at = (unsigned long long)first + line % 8 * 128 + line / 8 * stride;
        at += BY_DEPTH ? along : along % 128 + along / 128 * leading;
        return (const void*)(at ^ (at >> 3 & 0x70));
    }
    // The element at a place across the depth.
    template <typename T, bool BY_DEPTH>
    float element(int place, int depth) const {
        return cukern::factor_of<T>(byte_of<BY_DEPTH>(BY_DEPTH ? place : depth, sizeof(T) * (BY_DEPTH ? depth : place)));
    }
    // What a lane can say of `count` places from one on: the lanes of a warp share their chunks of 16 bytes.
    template <typename T, bool BY_DEPTH>
    void require(int from, int count, const char* file, int line) const {
        if ((unsigned long long)first % 16 || stride % 16 || (!BY_DEPTH && leading % 16))
            cukern::fault("the address or a step of a SharedMatrix is no multiple of 16 bytes", file, line);
        if ((unsigned long long)first % 1024 >= 128 && stride != 1024)
            cukern::fault("a SharedMatrix begins within a group of eight lines, which begins at a multiple of 1024 bytes", file,
                          line);
        const int chunks = BY_DEPTH ? 2 : count * (int)sizeof(T) / 16, lines = BY_DEPTH ? count : 32 / (int)sizeof(T);
        for (int i = cukern::thread_rank() % 32; i < lines * chunks; i += 32) {
            const int chunk = i % chunks * 16;
            const void* const at = BY_DEPTH ? byte_of<true>(from + i / chunks, chunk)
                                            : byte_of<false>(i / chunks, from * (int)sizeof(T) + chunk);
            cukern::runtime->reads_async(at, 16, file, line);
        }
    }
};

namespace cukern {
struct WgmmaOperands {
    float* d;
    const SharedMatrix* a;  // or null, and words in registers
    const unsigned* words;
    const SharedMatrix* b;
    bool add;
    unsigned warp;
    const char* file;
    int line;
};
template <typename T, int N, bool IN_REGISTERS, bool A_BY_DEPTH, bool B_BY_DEPTH>
void multiply_now(const Operation* own) {
    constexpr int k_end = 32 / sizeof(T);
    const SharedMatrix &of_a = *(const SharedMatrix*)&own->words[33], &of_b = *(const SharedMatrix*)&own->words[36];
    const int warp = own->warp % 4;
    note_product(16, N, k_end, 8 * sizeof(T));
    float a[16][k_end], b[N][k_end];
    for (int lane = 0; lane < 32 && IN_REGISTERS; ++lane) spread_words<T>(a, lane, (const unsigned*)own->source + 4 * lane);
    for (int k = 0; k < k_end; ++k) {
        for (int i = 0; i < 16 && !IN_REGISTERS; ++i) a[i][k] = of_a.element<T, A_BY_DEPTH>(16 * warp + i, k);
        for (int i = 0; i < N; ++i) b[i][k] = of_b.element<T, B_BY_DEPTH>(i, k);
    }
    for (int lane = 0; lane < 32; ++lane) {
        float* const d = (float*)own->words[lane];
        for (int i = 0; i < N / 2; ++i) {
            const auto &row = a[lane / 4 + 8 * (i / 2 % 2)], &column = b[8 * (i / 4) + 2 * (lane % 4) + i % 2];
            d[i] = (float)with_products(own->words[32] ? d[i] : 0, row, column);
        }
        runtime->wrote_registers(lane, d, N / 2 * sizeof(float));
    }
}
// Each of the four warps by itself: nothing but a barrier makes them wait for each other. Words of A are read at once, as the
// variables that they came from are the compiler's to use again.
template <typename T, int N, bool IN_REGISTERS, bool A_BY_DEPTH, bool B_BY_DEPTH>
void wgmma_of_warp(const unsigned long long* lanes) {
    const WgmmaOperands& first = *(const WgmmaOperands*)lanes[0];
    unsigned words[32][4];
    Operation own{product_groups, first.warp, IN_REGISTERS ? sizeof words : 0, words,
                  multiply_now<T, N, IN_REGISTERS, A_BY_DEPTH, B_BY_DEPTH>, "wgmma", first.file, first.line, {}};
    own.reads_at_once = IN_REGISTERS;
    for (int lane = 0; lane < 32; ++lane) {
        const WgmmaOperands& given = *(const WgmmaOperands*)lanes[lane];
        own.words[lane] = (unsigned long long)given.d;
        if (IN_REGISTERS) __builtin_memcpy(words[lane], given.words, sizeof words[lane]);
    }
    own.words[32] = first.add;
    static_assert(sizeof(SharedMatrix) <= 24, "three words");
    if (!IN_REGISTERS) __builtin_memcpy(&own.words[33], first.a, sizeof *first.a);
    __builtin_memcpy(&own.words[36], first.b, sizeof *first.b);
    runtime->send(&own);
}
}  // namespace cukern

template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
inline void wgmma(float (&d)[N / 2], SharedMatrix a, SharedMatrix b, bool add, CUKERN_HERE) {
    static_assert(is_tensor_type<T>, "wgmma: T is __half, __nv_bfloat16, float or E4M3");
    static_assert(sizeof(T) == 2 || (A_BY_DEPTH && B_BY_DEPTH), "wgmma: matrices of this type lie by depth");
    cukern::runtime->gives_registers(d, sizeof d, !add, file, line);
    a.require<T, A_BY_DEPTH>(cukern::thread_rank() / 32 % 4 * 16, 16, file, line);
    b.require<T, B_BY_DEPTH>(0, N, file, line);
    cukern::WgmmaOperands own{d, &a, nullptr, &b, add, cukern::thread_rank() / 32, file, line};
    cukern::together("wgmma", cukern::wgmma_of_warp<T, N, false, A_BY_DEPTH, B_BY_DEPTH>, &own, file, line);
}
template <typename T, int N, bool A_BY_DEPTH, bool B_BY_DEPTH>
inline void wgmma_line(float (&d)[N / 2], SharedMatrix a, SharedMatrix b, bool add, CUKERN_HERE) {
    for (int k = 0; k < 4; ++k, add = true) {
        wgmma<T, N, A_BY_DEPTH, B_BY_DEPTH>(d, a, b, add, file, line);
        a += SharedMatrix::step<A_BY_DEPTH>;
        b += SharedMatrix::step<B_BY_DEPTH>;
    }
}
template <typename T, int N, bool B_BY_DEPTH>
inline void wgmma(float (&d)[N / 2], const unsigned (&a)[4], SharedMatrix b, bool add, CUKERN_HERE) {
    static_assert(is_tensor_type<T>, "wgmma: T is __half, __nv_bfloat16, float or E4M3");
    static_assert(sizeof(T) == 2 || B_BY_DEPTH, "wgmma: matrices of this type lie by depth");
    cukern::runtime->gives_registers(d, sizeof d, !add, file, line);
    cukern::runtime->gives_registers(a, sizeof a, false, file, line);
    b.require<T, B_BY_DEPTH>(0, N, file, line);
    cukern::WgmmaOperands own{d, nullptr, a, &b, add, cukern::thread_rank() / 32, file, line};
    cukern::together("wgmma", cukern::wgmma_of_warp<T, N, true, true, B_BY_DEPTH>, &own, file, line);
}
inline void wgmma_fence() { cukern::runtime->fence_registers(); }
inline void wgmma_commit() { cukern::runtime->commit(cukern::product_groups); }
template <int LEFT, int N>
inline void wgmma_wait(float (&)[N]) {
    cukern::runtime->finish(cukern::product_groups, LEFT, false);
}
template <int N>
inline void wgmma_made(float (&)[N]) {}

#endif
#endif  // CUKERN_WGMMA
