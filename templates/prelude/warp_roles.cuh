// What warps of a block that do different work need: barriers for some of them, registers moved between them (sm_90a), and
// one lane of a warp to do what one thread does. All 32 lanes of a warp call each function together.
// Source: PTX ISA, barrier, setmaxnreg, elect.
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
    NumberedBarrier& barrier = runtime->numbered_barriers()[first.number];
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
inline Coming come(const char* name, int number, int threads, const char* file, int line) {
    if (number < 1 || number > 15) fault("the number of a barrier is not in 1 to 15", file, line);
    const int all = int(blockDim.x * blockDim.y * blockDim.z);
    if (threads < 32 || threads % 32 || threads > all)
        fault("the threads of a barrier are no whole warps of the block", file, line);
    Coming own{number, threads, 0, file, line};
    show_order(&runtime->numbered_barriers()[number]);
    together(name, come, &own, file, line);
    return own;
}
inline bool is_next(const Wait* wait) {
    const Coming& own = *(const Coming*)wait->value;
    return runtime->numbered_barriers()[own.number].generation != own.generation;
}
inline void nothing(const unsigned long long*) {}
}  // namespace cukern

inline void barrier_sync(int number, int threads, CUKERN_HERE) {
    const cukern::Coming own = cukern::come("barrier_sync", number, threads, file, line);
    cukern::until("barrier_sync", cukern::is_next, (unsigned long long)&own, nullptr, file, line);
    cukern::see_order(&cukern::runtime->numbered_barriers()[number]);
}
inline void barrier_arrive(int number, int threads, CUKERN_HERE) {
    cukern::come("barrier_arrive", number, threads, file, line);
}
template <int N>
inline void give_registers(CUKERN_HERE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "a multiple of 8 in 24 to 256");
    cukern::together("give_registers", cukern::nothing, nullptr, file, line);
}
template <int N>
inline void take_registers(CUKERN_HERE) {
    static_assert(N >= 24 && N <= 256 && N % 8 == 0, "a multiple of 8 in 24 to 256");
    cukern::together("take_registers", cukern::nothing, nullptr, file, line);
}
inline bool elect_lane(CUKERN_HERE) {
    cukern::together("elect_lane", cukern::nothing, nullptr, file, line);
    return cukern::thread_rank() % 32 == 13;  // not the one that is guessed
}

#endif
