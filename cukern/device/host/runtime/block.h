// One block at a time on one core: the threads as fibers, what they wait for, and the report when they never meet.
#pragma once
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cukern_abi.h"
#include "fiber.h"

using cukern::Collective;
using cukern::Dim;
using cukern::Kernel;
using cukern::Launch;
using cukern::Operation;
using cukern::Roles;
using cukern::Wait;

constexpr unsigned max_threads = 1024;
constexpr unsigned max_cluster = 8;
constexpr unsigned max_places = max_cluster * max_threads;  // of the threads that run together
constexpr size_t message_bytes = 4096;

struct Warp {
    unsigned live;      // lanes that have not returned
    unsigned runnable;  // those of them that wait for nothing
    unsigned fresh;     // lanes that have not begun
};

struct Job;
struct Pending;
struct Key;
struct Given;

// All that one OS thread needs to run blocks.
struct Worker {
    Context home;
    Context interrupted;  // where a signal found the kernel, while Python looks at its signals
    Context plain;
    char* plain_stack;
    Context fibers[max_places];
    char* fiber_stacks[max_places];
    Wait* waits[max_places];  // what each thread waits for, if it waits
    Warp warps[max_places / 32];
    char* shared[max_cluster];  // the pages for dynamic shared memory of each block; see shared.h
    char* images;               // the static shared memory of the blocks of a cluster that do not run; see cluster.h
    size_t images_bytes;
    char* copies;  // where small arrays are while a kernel runs; see zones.h
    unsigned made;     // fibers that have a stack
    unsigned started;  // fibers whose context is valid
    unsigned threads, warp_count, current, live;  // of all blocks that run together
    unsigned cluster, block_warps;                // the blocks, and the warps of each: the last one may have lanes missing
    unsigned rank;                                // of the block whose shared memory and blockIdx are in place
    Dim corner;                                   // the first of the blocks
    bool begun[max_cluster], ended[max_cluster];  // blocks of a cluster
    char* seen[max_cluster];  // shared memory as what goes on beside sees it; see proxy.h
    size_t seen_bytes[max_cluster];
    bool is_seen[max_cluster];
    unsigned cluster_phase, cluster_arrived;
    unsigned cluster_came[max_places];            // of each thread: the phase that ends the one at which it came, or 0
    bool in_block;  // a fiber runs
    bool running;   // a kernel runs
    bool whole;     // what the runtime does is not to be left; see Whole
    bool asks;      // it was left for Python to look at its signals
    bool is_main;   // this is the process's first thread, which runs Python's signal handlers
    pthread_t thread;
    unsigned long long since;  // atomic: when the user's kernel that it works for began, in ns, or 0
    Worker* link;              // of the list of workers
    void* signal_stack;
    Job* job;
    const Kernel* kernel;
    const Launch* launch;
    unsigned long long first, count;
    Dim block;
    Dim shape;                 // of the block that `index` is for
    unsigned indexed;
    Dim index[max_places];   // of each thread
    Dim* thread_index;         // the kernel's threadIdx; without fibers its last one and blockIdx, or null
    char* dynamic_shared;      // of the launch
    Pending* pending;          // what goes on beside the threads, oldest first, and whose it is; see beside.h
    Key* keys;
    unsigned pending_count, pending_left, pending_room;
    const char* left_behind;  // what threads have left in flight that they may not, or null
    unsigned left_behind_by;
    bool beside;  // the block has used it, or barriers that have a number
    Given* given;             // to products by each thread; see registers.h
    unsigned given_threads;
    unsigned given_count[max_places];
    bool fenced[max_places];
    unsigned groups[3][max_places];  // that each thread has ended, of each queue that has groups
    unsigned long long random;
    const Operation* doing;   // a piece of it that is being done, and its thread
    unsigned doing_for;
    Roles roles[max_cluster];
    bool faulted;
    bool checked;  // it runs a user's kernel
    char message[message_bytes];
};

// The thread's own worker. Initial-exec, as it is read at every switch.
static thread_local Worker* worker __attribute__((tls_model("initial-exec")));

static unsigned rank_of(const Worker* w, unsigned thread) { return w->cluster > 1 ? thread / 32 / w->block_warps : 0; }
static Dim block_of(const Worker* w, unsigned rank);
static void bring_block(Worker* w, unsigned rank);
static const void* now_at(const Worker* w, unsigned rank, const void* address);

[[noreturn]] static void give_up(Worker* w) {
    w->faulted = true;
    w->running = w->whole = false;
    w->started = 0;
    Context dropped;
    cukern_switch(&dropped, &w->home);
    __builtin_unreachable();
}

// While there is one, no tick leaves the kernel, as it may at any other instruction: memory that a worker keeps from block to block
// would be freed twice, or used after that, if it were left half changed.
struct Whole {
    Worker* const w;
    const bool before;

    explicit Whole(Worker* w) : w(w), before(w->whole) {
        w->whole = true;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    ~Whole() {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        w->whole = before;
    }
};

#include "report.h"
#ifdef CUKERN_CHECKED
#include "checked/order.h"
#else
#include "hooks.h"
#endif

#define EACH_LANE(lane, lanes) \
    for (unsigned rest_ = (lanes), lane = 0; rest_ && (lane = __builtin_ctz(rest_), true); rest_ &= rest_ - 1)

static unsigned shuffle_source(const Wait* wait, unsigned lane) {
    const unsigned width = (unsigned)wait->width, segment = lane & ~(width - 1), last = segment + width - 1;
    const unsigned argument = (unsigned)wait->argument;
    switch (wait->what) {
        case cukern::warp_shuffle: return segment | (argument & (width - 1));
        case cukern::warp_shuffle_up: return argument > lane - segment ? lane : lane - argument;
        case cukern::warp_shuffle_down: return argument > last - lane ? lane : lane + argument;
        default: return (lane ^ argument) > last ? lane : lane ^ argument;
    }
}

static unsigned reduce(Collective what, unsigned a, unsigned b) {
    switch (what) {
        case cukern::warp_add: return a + b;
        case cukern::warp_min_signed: return (int)a < (int)b ? a : b;
        case cukern::warp_min_unsigned: return a < b ? a : b;
        case cukern::warp_max_signed: return (int)a > (int)b ? a : b;
        case cukern::warp_max_unsigned: return a > b ? a : b;
        case cukern::warp_and: return a & b;
        case cukern::warp_or: return a | b;
        default: return a ^ b;
    }
}

// What a vote, a match or a reduction gives to every lane of the group.
static void set_results(Wait* const* waits, unsigned group) {
    const Wait* first = waits[__builtin_ctz(group)];
    const Collective what = first->what;
    unsigned ballot = 0, alike = 0, reduced = (unsigned)first->value;
    EACH_LANE(lane, group) {
        ballot |= (unsigned)(waits[lane]->value != 0) << lane;
        alike |= (unsigned)(waits[lane]->value == first->value) << lane;
        if (waits[lane] != first) reduced = reduce(what, reduced, (unsigned)waits[lane]->value);
    }
    unsigned result = reduced;
    if (what == cukern::warp_ballot) result = ballot;
    if (what == cukern::warp_all) result = ballot == group;
    if (what == cukern::warp_any) result = ballot != 0;
    if (what == cukern::warp_match_all) result = alike == group ? group : 0;
    EACH_LANE(lane, group) waits[lane]->result = result;
}

static void complete(Wait* const* waits, unsigned group) {
    const Collective what = waits[__builtin_ctz(group)]->what;
    if (what >= cukern::warp_shuffle && what <= cukern::warp_shuffle_xor) {
        EACH_LANE(lane, group) {
            const unsigned source = shuffle_source(waits[lane], lane) & 31;
            const bool there = group >> source & 1;
            waits[lane]->result = there ? waits[source]->value : on_missing_lane(waits[lane], lane, source);
        }
    } else if (what == cukern::warp_match_any) {
        EACH_LANE(lane, group) {
            unsigned alike = 0;
            EACH_LANE(other, group) alike |= (unsigned)(waits[other]->value == waits[lane]->value) << other;
            waits[lane]->result = alike;
        }
    } else if (what == cukern::warp_together) {
        unsigned long long values[32];
        EACH_LANE(lane, group) values[lane] = waits[lane]->value;
        on_together(waits[__builtin_ctz(group)]);
        waits[__builtin_ctz(group)]->work(values);
        on_together_done();
    } else if (what != cukern::warp_sync) {
        set_results(waits, group);
    }
}

// The lanes that go on with `lane` once none of its warp can run; 0 if there are lanes missing.
// Those in the same __activemask are active together; a collective needs every live lane that it names.
static unsigned group_of(Wait* const* waits, unsigned lane, unsigned waiting, unsigned live) {
    const Wait* wait = waits[lane];
    unsigned group = 0;
    if (wait->what == cukern::warp_active_mask) {
        EACH_LANE(other, waiting) group |= (unsigned)same_place(waits[other], wait) << other;
        group = choose_active(wait, lane, group);
        EACH_LANE(other, group) waits[other]->result = group;
        return group;
    }
    group = wait->mask & live;
    if (group & ~waiting) return 0;
    EACH_LANE(other, group) {
        const Wait* also = waits[other];
        if (also->what != wait->what || also->mask != wait->mask) return 0;
        if (wait->what == cukern::warp_together && also->work != wait->work) return 0;
    }
    complete(waits, group);
    return group;
}

static void fault(const char* what, const char* file, int line, Dim block, Dim thread) {
    Worker* w = worker;
    Text text = {w->message, message_bytes};
    if (w->doing) thread = w->index[w->doing_for];
    append(&text, "block (%u, %u, %u), thread (%u, %u, %u): %s", block.x, block.y, block.z, thread.x, thread.y,
           thread.z, what);
    if (file) append(&text, ", %s:%d", file, line);
    append_sender(w, &text);
    give_up(w);
}

static void check_collective(Worker* w, unsigned thread) {
    const Wait* wait = w->waits[thread];
    const unsigned width = (unsigned)wait->width;
    const char* wrong = 0;
    if (!(wait->mask >> thread % 32 & 1)) wrong = "the mask of a warp's function leaves out the calling lane";
    if (wait->what >= cukern::warp_shuffle && wait->what <= cukern::warp_shuffle_xor && (width - 1 > 31 || (width & (width - 1))))
        wrong = "the width of a shuffle is not 1, 2, 4, 8, 16 or 32";
    if (wait->what == cukern::warp_together && w->warps[thread / 32].live != 0xffffffffu)
        wrong = "an instruction of all 32 lanes of a warp is called where some have ended or never were";
    if (wrong) fault(wrong, wait->file, wait->line, w->block, w->index[thread]);
}

static bool is_met(const Wait* wait) {
    on_beside();
    on_quiet(true);
    const bool met = wait->ready(wait);
    on_quiet(false);
    on_beside_done();
    return met;
}

// Lets those lanes of a warp go on whose collective is complete; false when there are none.
static bool resolve_warp(Worker* w, unsigned index) {
    Warp* warp = &w->warps[index];
    Wait* const* waits = &w->waits[index * 32];
    unsigned collecting = 0, converging = 0, resumed = 0;
    EACH_LANE(lane, warp->live & ~warp->runnable) {
        const Collective what = waits[lane]->what;
        collecting |= (unsigned)(what >= cukern::warp_sync && what < cukern::warp_active_mask) << lane;
        converging |= (unsigned)(what == cukern::warp_active_mask) << lane;
        if (what == cukern::condition) resumed |= (unsigned)is_met(waits[lane]) << lane;
    }
    for (unsigned pending = collecting; pending;) {
        const unsigned lane = __builtin_ctz(pending);
        check_collective(w, index * 32 + lane);
        on_switch(index * 32 + lane);  // whose warp does it, though another one's thread has come to see it
        const unsigned group = group_of(waits, lane, collecting, warp->live);
        if (group && waits[lane]->what == cukern::warp_sync) on_warp_sync(index, waits[lane]->mask);
        if (group) on_met(index, group);
        on_switch(w->current);
        resumed |= group;
        pending &= ~(group | 1u << lane);
    }
    if (!resumed && converging) {
        on_switch(index * 32 + __builtin_ctz(converging));
        resumed = group_of(waits, __builtin_ctz(converging), converging, warp->live);
        on_switch(w->current);
    }
    warp->runnable |= resumed;
    return resumed != 0;
}

// Lets all threads of a block go on if every live one waits at the same barrier of the block.
static bool resolve_block(Worker* w, unsigned rank) {
    const Wait* first = 0;
    unsigned yes = 0, live = 0;
    const unsigned from = rank * w->block_warps, end = from + w->block_warps;
    for (unsigned i = from; i < end; ++i) {
        EACH_LANE(lane, w->warps[i].live) {
            ++live;
            const Wait* wait = w->waits[i * 32 + lane];
            if (!first) first = wait;
            if (w->warps[i].runnable || wait->what > cukern::barrier_or || !same_place(wait, first)) return false;
            if (first->what != cukern::barrier) yes += (unsigned)wait->value;
        }
    }
    if (!first) return false;
    on_barrier(rank);
    const bool votes = first->what != cukern::barrier;
    const unsigned result = first->what == cukern::barrier_count ? yes
                          : first->what == cukern::barrier_and   ? yes == live
                                                                 : yes != 0;
    for (unsigned i = from; i < end; ++i) {
        w->warps[i].runnable = w->warps[i].live;
        if (votes) EACH_LANE(lane, w->warps[i].live) w->waits[i * 32 + lane]->result = result;
    }
    return true;
}

#include "beside.h"

// A thread of the block in place that can run, or max_places; from one of its warps on.
static unsigned find_in_block(Worker* w, unsigned from) {
    const unsigned first = w->rank * w->block_warps;
    for (bool again = true; again; again = resolve_block(w, w->rank)) {
        unsigned own = from;
        do {
            const unsigned index = first + own;
            if (w->warps[index].runnable || resolve_warp(w, index))
                return index * 32 + choose_lane(w->warps[index].runnable);
            if (++own == w->block_warps) own = 0;
        } while (own != from);
    }
    return max_places;
}

// A thread that can run, whose block is then in place, or max_places. A warp runs as long as it can, then the next one of its
// block does, then the next block; or any at random.
static unsigned find_runnable(Worker* w) {
    const unsigned here = is_random() ? next_random(w) % w->warp_count : w->current / 32;
    const unsigned rank = here / w->block_warps;
    do_some(w);
    for (bool again = true; again; again = do_counted(w)) {
        for (unsigned i = 0; i < w->cluster; ++i) {
            const unsigned next = (rank + i) % w->cluster;
            if (w->ended[next]) continue;
            bring_block(w, next);
            const unsigned found = find_in_block(w, i ? 0 : here % w->block_warps);
            if (found != max_places) return found;
        }
    }
    return max_places;
}

template <class T>
static inline void exchange(T& a, T& b) {
    const T kept = a;
    a = b, b = kept;
}

// Continues another thread of the block, until this one is continued.
static inline __attribute__((always_inline)) void switch_thread(Worker* w, unsigned me, unsigned next) {
    w->current = next;
    on_switch(next);
    *w->thread_index = w->index[next];
    cukern_switch(&w->fibers[me], &w->fibers[next]);
}

// Stops the running thread, which is at its end or not, and continues the next. One that has not begun takes the stack of one that
// has ended, and gives it its own.
template <bool ended = false>
static inline __attribute__((always_inline)) void run_next(Worker* w, unsigned me, Warp* warp, unsigned runnable) {
    unsigned next = (me & ~31u) + choose_lane(runnable);
    warp->runnable = runnable;
    if (__builtin_expect(!runnable, 0)) {
        next = find_runnable(w);
        if (next == max_places) report_divergence(w);
    }
    if (!ended || !contexts_move || !(w->warps[next / 32].fresh >> next % 32 & 1)) return switch_thread(w, me, next);
    {
        const Whole own(w);
        exchange(w->fibers[me], w->fibers[next]);
        exchange(w->fiber_stacks[me], w->fiber_stacks[next]);
        w->current = next;
    }
    on_switch(next);
    *w->thread_index = w->index[next];
}

static void wait_for_others(Wait* wait) {
    Worker* w = worker;
    const unsigned me = w->current;
    Warp* warp = &w->warps[me / 32];
    w->waits[me] = wait;
    run_next(w, me, warp, warp->runnable & ~(1u << me % 32));
}

// Lets the other threads that can run have their turn, each in its order.
static void let_others_run(Wait* wait) {
    Worker* w = worker;
    const unsigned me = w->current, bit = 1u << me % 32;
    Warp* warp = &w->warps[me / 32];
    w->waits[me] = wait;
    warp->runnable &= ~bit;
    unsigned next = me + 1 == w->threads ? 0 : me + 1;
    while (next != me && !(w->warps[next / 32].runnable >> next % 32 & 1)) next = next + 1 == w->threads ? 0 : next + 1;
    if (next < me) {  // once a round, those that wait: for what the ones that take turns may have brought about
        for (unsigned i = 0; i < w->warp_count; ++i) {
            if (w->warps[i].live) bring_block(w, rank_of(w, 32 * i));
            resolve_warp(w, i);
        }
        do_counted(w);
    }
    if (next == me) next = find_runnable(w);
    warp->runnable |= bit;
    if (next == max_places) next = me;
    bring_block(w, rank_of(w, next));
    if (next != me) switch_thread(w, me, next);
}

static void leave_cluster(Worker* w, unsigned me);

static Roles* roles() {
    worker->beside = true;
    return &worker->roles[worker->rank];
}

static void wait_without_fibers(Wait* wait) {
    fault("this kernel reached a barrier and was compiled as one that has none", wait->file, wait->line, {}, {});
}

// The running thread has returned.
static void leave_block(Worker* w) {
    const unsigned me = w->current, bit = 1u << me % 32;
    Warp* warp = &w->warps[me / 32];
    warp->live &= ~bit;
    on_thread_end(me);
    if (w->pending_count) leave_products(w);
    --w->live;
    if (w->cluster > 1 || w->cluster_arrived) leave_cluster(w, me);
    if (w->live == 0) {
        do_stores(w);
        cukern_switch(&w->fibers[me], &w->home);
    } else run_next<true>(w, me, warp, warp->runnable & ~bit);
}

static void fiber_main() {
    for (;;) {
        Worker* w = worker;
        w->warps[w->current / 32].fresh &= ~(1u << w->current % 32);
        w->kernel->run_thread(w->launch);
        leave_block(w);
    }
}

static void plain_main() {
    for (;;) {
        Worker* w = worker;
        w->kernel->run_blocks(w->launch, w->first, w->count, w->dynamic_shared);
        cukern_switch(&w->plain, &w->home);
    }
}

static void prepare_block(Worker* w) {
    const Dim shape = w->launch->block;
    const unsigned threads = shape.x * shape.y * shape.z;
    w->block_warps = (threads + 31) / 32;
    w->warp_count = w->cluster * w->block_warps;
    w->threads = threads + (w->cluster - 1) * w->block_warps * 32;
    for (unsigned i = 0; i < w->warp_count; ++i) {
        const unsigned lanes = threads - i % w->block_warps * 32, all = lanes < 32 ? (1u << lanes) - 1 : 0xffffffffu;
        w->warps[i] = {all, all, all};
    }
    w->live = w->cluster * threads;
    w->current = w->rank = 0;
    w->doing = 0;
    if (shape.x != w->shape.x || shape.y != w->shape.y || shape.z != w->shape.z || w->indexed < w->threads) {
        w->shape = shape;
        w->indexed = w->threads;
        for (unsigned i = 0; i < w->threads; ++i) {
            const unsigned own = i % (32 * w->block_warps);
            w->index[i] = {own % shape.x, own / shape.x % shape.y, own / shape.x / shape.y};
        }
    }
    // Stacks lie a multiple of the cache's way apart; the offset spreads their tops over its sets.
    for (; w->started < w->threads; ++w->started)
        make_context(&w->fibers[w->started], w->fiber_stacks[w->started], fiber_stack_bytes - w->started * 192 % 2048, fiber_main);
}
