// The names of CUDA C++ for the host's compiler. No standard header: a kernel must compile in a fraction of a second.
#pragma once
#include "cukern_abi.h"

#define __global__ inline __attribute__((always_inline))
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __managed__
#define __grid_constant__
#define __forceinline__ __attribute__((always_inline))  // and maybe `inline` beside it
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))  // may stand after other specifiers, as in CUDA

#ifndef __clang__
namespace cukern {
[[noreturn]] static inline void assumed_away() { __builtin_unreachable(); }
}
#define __builtin_assume(condition) ((condition) ? (void)0 : cukern::assumed_away())
#endif

#include "cukern_types.h"

#ifdef CUKERN_CHECKED
// One thread runs at a time, and its own variables are constants to it: so the compiler announces no access to them.
// The entry point defines them, under another name.
struct CukernOwn {
    uint3 thread, block, block_size, grid_size;
};
// The parameters of the launch; CUDA allows so many bytes.
struct alignas(128) CukernParams {
    unsigned char bytes[32768];
};
extern "C" {
extern const CukernOwn cukern_own __attribute__((visibility("hidden")));
extern const CukernParams cukern_params __attribute__((visibility("hidden")));
}
#define threadIdx cukern_own.thread
#define blockIdx cukern_own.block
#define blockDim cukern_own.block_size
#define gridDim cukern_own.grid_size
#else
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
#endif
static const int warpSize = 32;

namespace cukern {
static const Runtime* runtime;
static thread_local void* dynamic_shared_base;

template <class T>
using Pointer = T*;

// What `extern __shared__ T name[]` becomes a pointer to.
struct DynamicShared {
    template <class T>
    operator T*() const {
        return (T*)__builtin_assume_aligned(dynamic_shared_base, 128);
    }
};
static inline DynamicShared dynamic_shared() { return {}; }

template <class T>
inline T load(const unsigned char* from) {
    if constexpr (__is_trivially_constructible(T)) {
        T value;
        __builtin_memcpy(&value, from, sizeof(T));
        return value;
    } else {
        alignas(T) unsigned char bytes[sizeof(T)];
        __builtin_memcpy(bytes, from, sizeof(T));
        return *(const T*)bytes;
    }
}

// The types of a function's parameters by their numbers. Looked up among base classes: to peel one type after another
// off the list takes a compiler time that grows with the cube of their number.
template <unsigned... number>
struct Numbers {};
template <unsigned number, class T>
struct Param {
    using type = T;
};
template <class Function, class Of>
struct ParamList;
template <class... T, unsigned... number>
struct ParamList<void (*)(T...), Numbers<number...>> : Param<number, T>... {};
template <unsigned number, class T>
Param<number, T> param_at(const Param<number, T>*);

// Where each parameter is among the launch's bytes, and, behind the last, how many these are.
template <unsigned count>
struct Offsets {
    unsigned at[count + 1];
};

template <class Function>
struct Params;
template <class... T>
struct Params<void (*)(T...)> {
    static constexpr unsigned count = sizeof...(T);
    static constexpr unsigned sizes[count + 1] = {sizeof(T)...};
    static constexpr Offsets<count> offsets() {
        Offsets<count> made = {};
        for (unsigned i = 0; i < count; ++i) made.at[i + 1] = made.at[i] + ((sizes[i] + 7) & ~7u);
        return made;
    }
};
template <class Function>
static constexpr auto offsets = Params<Function>::offsets();

template <unsigned number, class Function, class Of>
inline auto load_param(const unsigned char* params) {
    using Found = decltype(param_at<number>((const ParamList<Function, Of>*)nullptr));
    return load<typename Found::type>(params + offsets<Function>.at[number]);
}

static inline Dim block_at(const Launch* launch, unsigned long long index) {
    const Dim grid = launch->grid;
    return {(unsigned)(index % grid.x), (unsigned)(index / grid.x % grid.y), (unsigned)(index / grid.x / grid.y)};
}

#ifdef CUKERN_CHECKED
// A variable in static shared memory, of which `slot` keeps the number.
template <class T>
inline T& shared_variable(unsigned& slot, const char* name) {
    return *(T*)runtime->place_shared(&slot, sizeof(T), name);
}
#else
static inline void begin_block(const Launch* launch, Dim block, void* shared) {
    blockIdx = {block.x, block.y, block.z};
    blockDim = {launch->block.x, launch->block.y, launch->block.z};
    gridDim = {launch->grid.x, launch->grid.y, launch->grid.z};
    dynamic_shared_base = shared;
}

static inline void next_block(const Launch* launch) {
    if (++blockIdx.x < launch->grid.x) return;
    blockIdx.x = 0;
    if (++blockIdx.y < launch->grid.y) return;
    blockIdx.y = 0;
    ++blockIdx.z;
}
#endif
}  // namespace cukern


// All memory is in one address space.
#define CUKERN_ADDRESS_SPACE(space)                                                                          \
    static inline size_t __cvta_generic_to_##space(const void* address) { return (size_t)address; }          \
    static inline void* __cvta_##space##_to_generic(size_t address) { return (void*)address; }
CUKERN_ADDRESS_SPACE(global)
CUKERN_ADDRESS_SPACE(local)
CUKERN_ADDRESS_SPACE(constant)
CUKERN_ADDRESS_SPACE(grid_constant)
#undef CUKERN_ADDRESS_SPACE
static inline size_t __cvta_generic_to_shared(const void* address) { return (size_t)address; }
// Which __constant__ variables a kernel has, its text says: see translate.py.
namespace cukern {
__attribute__((visibility("hidden"))) bool is_constant(const void* address);
}
#define __isConstant(address) cukern::is_constant(address)
static inline unsigned __isShared(const void* address) { return cukern::runtime->is_shared(address, 1); }
static inline unsigned __isLocal(const void* address) { return cukern::runtime->is_local(address); }
#define __isGlobal(address) (!__isShared(address) && !__isLocal(address) && !__isConstant(address))

#include "cukern_warp.h"
#include "cukern_heap.h"
#include "cukern_integer.h"
#include "cukern_simd.h"
#include "cukern_math.h"
#include "cukern_rare.h"
#include "cukern_atomic.h"
#include "cukern_ptx.h"
static inline void* __cvta_shared_to_generic(size_t address) { return cukern::shared_at(address); }
