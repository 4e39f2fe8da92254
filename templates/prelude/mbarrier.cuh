// Barriers in shared memory that count arrivals of threads and bytes of copies, phase after phase (sm_90 and up). A phase is
// complete when as many arrivals as `arrivals` says and all expected bytes have come; then the next begins. Phases are told
// apart by their parity: the first is of parity 0, and a wait for parity 1 on a fresh barrier returns at once.
// Source: PTX ISA, mbarrier.
#ifndef CUKERN_MBARRIER
#define CUKERN_MBARRIER
#ifdef __CUDACC__

struct MBarrier {
    unsigned long long state;
};
// By one thread, which then calls fence_mbarrier_init, before copies count there; other threads use it after a barrier.
__device__ __forceinline__ void mbarrier_init(MBarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
// What this thread did before is seen by those who wait for this phase.
__device__ __forceinline__ void mbarrier_arrive(MBarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}
// The same, and so many bytes more are expected in this phase.
__device__ __forceinline__ void mbarrier_arrive_expecting(MBarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes) : "memory");
}
// Waits until the phase of this parity is complete.
__device__ __forceinline__ void mbarrier_wait(MBarrier* barrier, unsigned parity) {
    unsigned complete;
    do {
        asm volatile("{ .reg .pred complete; mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2; "
                     "selp.u32 %0, 1, 0, complete; }"
                     : "=r"(complete) : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
    } while (!complete);
}

#else

// These functions check their words themselves: with the compiler's checks a checked kernel would take a sixth longer to compile.
#define CUKERN_UNCHECKED __attribute__((no_sanitize("alignment", "signed-integer-overflow")))
using MBarrier = cukern::MBarrier;

namespace cukern {
CUKERN_UNCHECKED inline void require_place(const MBarrier* barrier, const char* file, int line) {
    if ((unsigned long long)barrier % 8) fault("the address of an mbarrier is no multiple of 8 bytes", file, line);
}
// That a thread names the mbarrier of its own block: an instruction for another one's is another instruction.
CUKERN_UNCHECKED inline void require_own(const MBarrier* barrier, const char* file, int line) {
    require_place(barrier, file, line);
    if (!runtime->is_shared(barrier, sizeof *barrier))
        fault("the address of an mbarrier is not in the block's own shared memory", file, line);
}
CUKERN_UNCHECKED inline void require_mbarrier(const MBarrier* barrier, const char* file, int line) {
    require_place(barrier, file, line);
    begin_use(barrier, file, line);
    const bool fresh = !barrier->expected || (barrier->pending == 0xfffff && barrier->phase == 3);
    end_order();
    if (fresh) fault("an mbarrier is used before mbarrier_init", file, line);
}
// The same where what goes on beside the threads counts there.
CUKERN_UNCHECKED inline void require_counting(const MBarrier* barrier, const char* file, int line) {
    require_mbarrier(barrier, file, line);
    runtime->counts_async(barrier, file, line);
}
CUKERN_UNCHECKED inline void complete_phase(MBarrier* barrier) {
    if (barrier->pending || barrier->bytes) return;
    barrier->phase = barrier->phase + 1;
    barrier->unseen = 1;
    barrier->pending = barrier->expected;
}
// A thread that waits for a phase sees what others did before they arrived in it, or earlier, but not before later arrivals.
inline const char* order_of(const MBarrier* barrier, unsigned phase) { return (const char*)barrier + 4 * (phase & 1); }
CUKERN_UNCHECKED inline void show_phase(const MBarrier* barrier, bool arrives = false) {
    begin_order();
    const unsigned phase = (unsigned)barrier->phase;
    end_order();
    see_order(order_of(barrier, phase + 1));
    show_order(order_of(barrier, phase), arrives);
}
inline void see_phase(const MBarrier* barrier, unsigned parity) { see_order(order_of(barrier, parity), true); }
CUKERN_UNCHECKED inline void arrive(MBarrier* barrier, unsigned bytes, const char* file, int line) {
    require_mbarrier(barrier, file, line);
    show_phase(barrier, true);
    begin_order();
    if (barrier->unseen) fault("a thread arrives at an mbarrier before any has waited for its last phase", file, line);
    if (!barrier->pending) fault("more threads arrive at an mbarrier than its phase expects", file, line);
    if (barrier->bytes + (long long)bytes > 0xfffff) fault("an mbarrier expects 2**20 bytes or more", file, line);
    barrier->bytes = barrier->bytes + (long long)bytes;
    barrier->pending = barrier->pending - 1;
    complete_phase(barrier);
    end_order();
}
// Copies count their bytes; they may come before they are expected.
CUKERN_UNCHECKED inline void count_bytes(MBarrier* barrier, unsigned bytes) {
    begin_quiet();
    barrier->bytes = barrier->bytes - (long long)bytes;
    complete_phase(barrier);
    end_quiet();
}
CUKERN_UNCHECKED inline bool is_past(const Wait* wait) {
    if ((wait->barrier->phase & 1) == wait->value) return false;
    const_cast<MBarrier*>(wait->barrier)->unseen = 0;
    return true;
}
CUKERN_UNCHECKED inline void wait_for_phase(const char* name, MBarrier* barrier, unsigned parity, const char* file, int line) {
    require_own(barrier, file, line);
    require_mbarrier(barrier, file, line);
    until(name, is_past, parity & 1, barrier, file, line);
}
CUKERN_UNCHECKED inline void arrive_here(MBarrier* barrier, unsigned bytes, const char* file, int line) {
    require_own(barrier, file, line);
    arrive(barrier, bytes, file, line);
}
}  // namespace cukern

CUKERN_UNCHECKED inline void mbarrier_init(MBarrier* barrier, unsigned arrivals, CUKERN_HERE) {
    if (!arrivals || arrivals > 0xfffff) cukern::fault("an mbarrier expects 1 to 2**20 - 1 arrivals", file, line);
    cukern::require_own(barrier, file, line);
    cukern::note_init(barrier);
    cukern::begin_order();
    barrier->pending = barrier->expected = arrivals;
    barrier->phase = barrier->unseen = 0;
    barrier->bytes = 0;
    cukern::end_order();
}
inline void fence_mbarrier_init() { cukern::runtime->fence_to_async(); }
CUKERN_UNCHECKED inline void mbarrier_arrive(MBarrier* barrier, CUKERN_HERE) { cukern::arrive_here(barrier, 0, file, line); }
CUKERN_UNCHECKED inline void mbarrier_arrive_expecting(MBarrier* barrier, unsigned bytes, CUKERN_HERE) {
    cukern::arrive_here(barrier, bytes, file, line);
}
CUKERN_UNCHECKED inline void mbarrier_wait(MBarrier* barrier, unsigned parity, CUKERN_HERE) {
    cukern::wait_for_phase("mbarrier_wait", barrier, parity, file, line);
    cukern::see_phase(barrier, parity);
}

#endif

// Makes a ring's barriers ready: each stage is full after `loads` arrivals, and empty after `reads`. By one thread, as mbarrier_init.
__device__ __forceinline__ void mbarrier_init_ring(MBarrier* full, MBarrier* empty, int stages, unsigned loads, unsigned reads) {
    for (int i = 0; i < stages; ++i) mbarrier_init(&full[i], loads), mbarrier_init(&empty[i], reads);
}
// Arrives once for a warp, when all its lanes have come.
__device__ __forceinline__ void mbarrier_arrive_warp(MBarrier* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}
#endif  // CUKERN_MBARRIER
