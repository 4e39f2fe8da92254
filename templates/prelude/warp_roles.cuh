// What warps of a block that do different work need: barriers for some of them, registers moved between them (sm_90a), and
// one lane of a warp to do what one thread does. All 32 lanes of a warp call each function together.
// Source: PTX ISA, barrier, setmaxnreg, elect.
<% include "prelude/in_registers.cuh" %>
#ifndef CUKERN_WARP_ROLES
#define CUKERN_WARP_ROLES
#ifdef __CUDACC__

// Waits until `threads` threads, a multiple of 32, have come to the barrier of this number, 1 to 15.
__device__ __forceinline__ void barrier_sync(int number, int threads) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Counts as having come, and goes on.
__device__ __forceinline__ void barrier_arrive(int number, int threads) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Gives registers back, so that N of each thread are left; of all warps of a warpgroup. N is a multiple of 8 in 24 to 256.
template <int N>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
// Waits until N registers a thread can be had; of all warps of a warpgroup.
template <int N>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
// True in one lane of the warp, which one is not said.
__device__ __forceinline__ bool elect_lane() {
    unsigned elected;
    asm volatile("{ .reg .pred elected; elect.sync _|elected, 0xffffffff; selp.u32 %0, 1, 0, elected; }" : "=r"(elected));
    return elected;
}

#else

namespace cukern {
struct Coming {
    int number, threads;
    unsigned generation;
    const char* file;
    int line;
};
inline void come(const unsigned long long* lanes) {
    Coming& first = *(Coming*)lanes[0];
    NumberedBarrier& barrier = runtime->roles()->barriers[first.number];
    for (int i = 0; i < 32; ++i) {
        Coming& own = *(Coming*)lanes[i];
        if (own.number != first.number || own.threads != first.threads)
            fault("the lanes of a warp come to different barriers", own.file, own.line);
        own.generation = barrier.generation;
    }
    if (barrier.arrived && barrier.threads != (unsigned)first.threads)
        fault("warps come to a barrier with different numbers of threads", first.file, first.line);
    barrier.threads = (unsigned)first.threads;
    barrier.arrived += 32;
    if (barrier.arrived == barrier.threads) barrier.arrived = 0, ++barrier.generation;
}
// A thread that waits sees what others did before they came, not before they come for the next time.
inline const char* order_of(const NumberedBarrier& barrier, unsigned generation) {
    return (const char*)&barrier + 4 * (generation & 1);
}
inline Coming come(const char* name, int number, int threads, const char* file, int line) {
    if (number < 1 || number > 15) fault("the number of a barrier is not in 1 to 15", file, line);
    const int all = int(blockDim.x * blockDim.y * blockDim.z);
    if (threads < 32 || threads % 32 || threads > all)
        fault("the threads of a barrier are no whole warps of the block", file, line);
    Coming own{number, threads, 0, file, line};
    const NumberedBarrier& barrier = runtime->roles()->barriers[number];
    see_order(order_of(barrier, barrier.generation - 1));  // as a generation follows the one before
    show_order(order_of(barrier, barrier.generation), true);
    together(name, come, &own, file, line);
    return own;
}
inline bool is_next(const Wait* wait) {
    const Coming& own = *(const Coming*)wait->value;
    return runtime->roles()->barriers[own.number].generation != own.generation;
}
inline void nothing(const unsigned long long*) {}

// The registers of a block are those that it began with: at most all that there are, which it is taken to have.
inline unsigned all_threads() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32 * 32; }
inline unsigned registers_at_first() {
    const unsigned most = 65536 / all_threads() / 8 * 8;
    return most < 256 ? most : 256;
}
inline unsigned registers_of(unsigned warp) {
    const unsigned known = runtime->roles()->registers[warp];
    return known ? known : registers_at_first();
}
struct Registers {
    unsigned warp, wanted;
};
inline bool are_had(const Wait* wait) {
    const Registers& own = *(const Registers*)wait->value;
    unsigned held = 0;
    for (unsigned warp = 0; warp < all_threads() / 32; ++warp) held += warp == own.warp ? own.wanted : registers_of(warp);
    if (32 * held > registers_at_first() * all_threads()) return false;
    runtime->roles()->registers[own.warp] = own.wanted;
    return true;
}
inline void change_registers(const char* name, unsigned wanted, bool gives, const char* file, int line) {
    const Registers own{thread_rank() / 32, wanted};
    const unsigned known = runtime->roles()->registers[own.warp];
    if (gives ? wanted > registers_of(own.warp) : wanted < known)
        fault(gives ? "give_registers: the warp has fewer" : "take_registers: the warp has more", file, line);
    together(name, nothing, nullptr, file, line);
    if (gives) runtime->roles()->registers[own.warp] = wanted;
    else until("take_registers (other warps have the registers)", are_had, (unsigned long long)&own, nullptr, file, line);
}
}  // namespace cukern

inline void barrier_sync(int number, int threads, CUKERN_HERE) {
    const cukern::Coming own = cukern::come("barrier_sync", number, threads, file, line);
    cukern::until("barrier_sync", cukern::is_next, (unsigned long long)&own, nullptr, file, line);
    cukern::see_order(cukern::order_of(cukern::runtime->roles()->barriers[number], own.generation), true);
}
inline void barrier_arrive(int number, int threads, CUKERN_HERE) {
    cukern::come("barrier_arrive", number, threads, file, line);
}
template <int N>
inline void give_registers(CUKERN_HERE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "a multiple of 8 in 24 to 256");
    cukern::change_registers("give_registers", N, true, file, line);
}
template <int N>
inline void take_registers(CUKERN_HERE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "a multiple of 8 in 24 to 256");
    cukern::change_registers("take_registers", N, false, file, line);
}
inline bool elect_lane(CUKERN_HERE) {
    cukern::together("elect_lane", cukern::nothing, nullptr, file, line);
    return cukern::thread_rank() % 32 == 13;  // not the one that is guessed
}

#endif

// The number of a thread's warpgroup, which the compiler knows to be the same for a warp: what depends on it, such as matrices of wgmma
// in shared memory, is in registers of the warp then.
__device__ __forceinline__ int own_group() { return __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0); }
#endif  // CUKERN_WARP_ROLES
