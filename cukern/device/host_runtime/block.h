// One block at a time on one core: the threads as fibers, what they wait for, and the report when they never meet.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cukern_abi.h"
#include "fiber.h"

using cukern::Collective;
using cukern::Dim;
using cukern::Kernel;
using cukern::Launch;

constexpr unsigned max_threads = 1024;
constexpr size_t shared_bytes = 232448;
constexpr size_t message_bytes = 2048;

struct Wait {
    Collective what;
    unsigned mask;
    unsigned long long value, result;
    int argument, width;
    const char* file;
    int line;
};

struct Warp {
    unsigned live;       // lanes that have not returned
    unsigned runnable;   // lanes that wait for nothing
    unsigned collecting;  // lanes that wait in a collective of the warp
    unsigned converging;  // lanes that wait in __activemask
};

// All that one OS thread needs to run blocks.
struct Worker {
    Context home;
    Context plain;
    char* plain_stack;
    Context fibers[max_threads];
    char* fiber_stacks[max_threads];
    Wait waits[max_threads];
    Warp warps[max_threads / 32];
    char* shared;
    unsigned made;     // fibers that have a stack
    unsigned started;  // fibers whose context is valid
    unsigned threads, warp_count, current, live;
    unsigned arrived, first_arrived, count_true;
    unsigned barrier_result[4];  // by the kind of barrier
    bool mixed;                  // threads wait at different barriers
    bool in_block;  // a fiber runs
    bool running;   // a kernel runs
    void* signal_stack;
    const Kernel* kernel;
    const Launch* launch;
    unsigned long long first, count;
    Dim block;
    Dim shape;                 // of the block that `index` is for
    Dim index[max_threads];  // of each thread
    bool faulted;
    char message[message_bytes];
};

// The thread's own worker. Initial-exec, as it is read at every switch.
static thread_local Worker* worker __attribute__((tls_model("initial-exec")));

static const char* const collective_names[] = {
    "__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp", "__shfl_sync",
    "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync", "__all_sync", "__any_sync",
    "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync",
    "__activemask", "__nanosleep"};


[[noreturn]] static void give_up(Worker* w) {
    w->faulted = true;
    w->running = false;
    w->started = 0;
    Context dropped;
    cukern_switch(&dropped, &w->home);
    __builtin_unreachable();
}

struct Text {
    char* at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void append(Text* text, const char* format, ...) {
    va_list values;
    va_start(values, format);
    const int written = vsnprintf(text->at, text->left, format, values);
    va_end(values);
    const size_t used = written < 0 ? 0 : (size_t)written < text->left ? (size_t)written : text->left - 1;
    text->at += used;
    text->left -= used;
}

static bool same_place(const Wait* a, const Wait* b) {
    return a->line == b->line && a->what == b->what && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

static bool waiting(const Worker* w, unsigned i) { return w->warps[i / 32].live >> (i % 32) & 1; }

// One line for each place where live threads wait, in the order of their first thread.
[[noreturn]] static void report_divergence(Worker* w) {
    Text text = {w->message, message_bytes};
    append(&text, "block (%u, %u, %u): its threads wait for each other at different places", w->block.x, w->block.y,
           w->block.z);
    unsigned places = 0;
    for (unsigned i = 0; i < w->threads && places < 8; ++i) {
        if (!waiting(w, i)) continue;
        unsigned earlier = 0, alike = 0;
        while (earlier < i && !(waiting(w, earlier) && same_place(&w->waits[earlier], &w->waits[i]))) ++earlier;
        if (earlier < i) continue;
        for (unsigned j = i + 1; j < w->threads; ++j) alike += waiting(w, j) && same_place(&w->waits[j], &w->waits[i]);
        const Dim at = w->index[i];
        const Wait* wait = &w->waits[i];
        append(&text, "\n  thread (%u, %u, %u)", at.x, at.y, at.z);
        if (alike) append(&text, " and %u more", alike);
        append(&text, " at %s", collective_names[wait->what]);
        if (wait->what >= cukern::warp_sync) append(&text, " of lanes 0x%08x", wait->mask);
        append(&text, ", %s:%d", wait->file, wait->line);
        ++places;
    }
    if (places < 2) append(&text, "\n  the other lanes that it names do not come");
    give_up(w);
}

static void resume(Warp* warp, unsigned lanes) {
    warp->runnable |= lanes;
    warp->collecting &= ~lanes;
    warp->converging &= ~lanes;
}

// The lanes that wait in the same __activemask, once no lane of the warp can run, are those that are active together.
static bool converge(Worker* w, unsigned warp_index) {
    Warp* warp = &w->warps[warp_index];
    if (!warp->converging) return false;
    Wait* waits = &w->waits[warp_index * 32];
    const Wait* first = &waits[__builtin_ctz(warp->converging)];
    unsigned group = 0;
    for (unsigned lanes = warp->converging; lanes; lanes &= lanes - 1) {
        const unsigned lane = __builtin_ctz(lanes);
        if (same_place(&waits[lane], first)) group |= 1u << lane;
    }
    for (unsigned lanes = group; lanes; lanes &= lanes - 1) waits[__builtin_ctz(lanes)].result = group;
    resume(warp, group);
    return true;
}

// A thread that can run, or max_threads: the rest of this warp first, then the other warps in turn.
static unsigned find_runnable(Worker* w) {
    unsigned index = w->current / 32;
    const unsigned above = w->warps[index].runnable & ~((2u << w->current % 32) - 1);
    if (above) return index * 32 + __builtin_ctz(above);
    for (unsigned tried = 0; tried < w->warp_count; ++tried) {
        if (w->warps[index].runnable || converge(w, index))
            return index * 32 + __builtin_ctz(w->warps[index].runnable);
        if (++index == w->warp_count) index = 0;
    }
    return max_threads;
}

static void switch_thread(Worker* w, unsigned next) {
    const unsigned me = w->current;
    if (next == me) return;
    w->current = next;
    cukern_switch(&w->fibers[me], &w->fibers[next]);
}

static void run_next(Worker* w) {
    const unsigned next = find_runnable(w);
    if (next == max_threads) report_divergence(w);
    switch_thread(w, next);
}

// Every live thread has arrived: all go on, if it is the same barrier that they arrived at.
static void release_barrier(Worker* w) {
    if (w->mixed) report_divergence(w);
    for (unsigned i = 0; i < w->warp_count; ++i) w->warps[i].runnable = w->warps[i].live;
    w->barrier_result[cukern::barrier_count] = w->count_true;
    w->barrier_result[cukern::barrier_and] = w->count_true == w->live;
    w->barrier_result[cukern::barrier_or] = w->count_true != 0;
    w->arrived = w->count_true = 0;
}

static unsigned long long wait_barrier(Worker* w, Collective what, Warp* warp, unsigned bit) {
    const unsigned me = w->current;
    warp->runnable &= ~bit;
    w->count_true += (unsigned)w->waits[me].value;
    if (w->arrived++ == 0) w->first_arrived = me;
    else if (!same_place(&w->waits[me], &w->waits[w->first_arrived])) w->mixed = true;
    if (w->arrived == w->live) release_barrier(w);
    else run_next(w);
    return w->barrier_result[what];
}

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

#define EACH_LANE(lane, lanes) \
    for (unsigned rest_ = (lanes), lane = 0; rest_ && (lane = __builtin_ctz(rest_), true); rest_ &= rest_ - 1)

// What a vote, a match or a reduction gives to every lane of the group.
static void set_results(Wait* waits, unsigned group) {
    const Wait* first = &waits[__builtin_ctz(group)];
    const Collective what = first->what;
    unsigned ballot = 0, alike = 0, reduced = (unsigned)first->value;
    EACH_LANE(lane, group) {
        ballot |= (unsigned)(waits[lane].value != 0) << lane;
        alike |= (unsigned)(waits[lane].value == first->value) << lane;
        if (&waits[lane] != first) reduced = reduce(what, reduced, (unsigned)waits[lane].value);
    }
    unsigned result = reduced;
    if (what == cukern::warp_ballot) result = ballot;
    if (what == cukern::warp_all) result = ballot == group;
    if (what == cukern::warp_any) result = ballot != 0;
    if (what == cukern::warp_match_all) result = alike == group ? group : 0;
    EACH_LANE(lane, group) waits[lane].result = result;
}

static void complete(Warp* warp, Wait* waits, unsigned group) {
    const Collective what = waits[__builtin_ctz(group)].what;
    if (what >= cukern::warp_shuffle && what <= cukern::warp_shuffle_xor) {
        EACH_LANE(lane, group) {
            const unsigned source = shuffle_source(&waits[lane], lane) & 31;
            waits[lane].result = waits[group >> source & 1 ? source : lane].value;
        }
    } else if (what == cukern::warp_match_any) {
        EACH_LANE(lane, group) {
            unsigned alike = 0;
            EACH_LANE(other, group) alike |= (unsigned)(waits[other].value == waits[lane].value) << other;
            waits[lane].result = alike;
        }
    } else if (what != cukern::warp_sync) {
        set_results(waits, group);
    }
    resume(warp, group);
}

// Completes the collective that `lane` waits in, if every live lane that it names waits in it too.
static bool try_complete(Warp* warp, Wait* waits, unsigned lane) {
    const unsigned group = waits[lane].mask & warp->live;
    if (group & ~warp->collecting) return false;
    EACH_LANE(other, group) {
        if (waits[other].what != waits[lane].what || waits[other].mask != waits[lane].mask) return false;
    }
    complete(warp, waits, group);
    return true;
}

static void fault(const char* what, const char* file, int line, Dim block, Dim thread) {
    Worker* w = worker;
    Text text = {w->message, message_bytes};
    append(&text, "block (%u, %u, %u), thread (%u, %u, %u): %s", block.x, block.y, block.z, thread.x, thread.y,
           thread.z, what);
    if (file) append(&text, ", %s:%d", file, line);
    give_up(w);
}

static unsigned long long wait_warp(Worker* w, Collective what, Warp* warp, unsigned bit) {
    const unsigned me = w->current, lane = me % 32;
    Wait* waits = &w->waits[me - lane];
    if (what == cukern::yield_thread) {
        warp->runnable &= ~bit;
        const unsigned next = find_runnable(w);
        warp->runnable |= bit;
        if (next != max_threads) switch_thread(w, next);
        return 0;
    }
    if (what == cukern::warp_active_mask) {
        warp->converging |= bit;
    } else {
        const Wait* wait = &waits[lane];
        const unsigned width = (unsigned)wait->width;
        if (!(wait->mask & bit))
            fault("the mask of a warp's function leaves out the calling lane", wait->file, wait->line, w->block, w->index[me]);
        if (what >= cukern::warp_shuffle && what <= cukern::warp_shuffle_xor && (width - 1 > 31 || (width & (width - 1))))
            fault("the width of a shuffle is not 1, 2, 4, 8, 16 or 32", wait->file, wait->line, w->block, w->index[me]);
        warp->collecting |= bit;
        if (try_complete(warp, waits, lane)) return waits[lane].result;
    }
    warp->runnable &= ~bit;
    run_next(w);
    return waits[lane].result;
}

static unsigned long long collect(
    Collective what, unsigned mask, unsigned long long value, int argument, int width, const char* file, int line) {
    Worker* w = worker;
    const unsigned me = w->current;
    if (!w->in_block) fault("this kernel was compiled without barriers and reached one", file, line, {0, 0, 0}, {0, 0, 0});
    w->waits[me] = {what, mask, value, 0, argument, width, file, line};
    Warp* warp = &w->warps[me / 32];
    const unsigned bit = 1u << me % 32;
    return what <= cukern::barrier_or ? wait_barrier(w, what, warp, bit) : wait_warp(w, what, warp, bit);
}

// The running thread has returned: whoever waited for it alone goes on.
static void leave_block(Worker* w) {
    const unsigned me = w->current, bit = 1u << me % 32;
    Warp* warp = &w->warps[me / 32];
    warp->live &= ~bit;
    warp->runnable &= ~bit;
    if (--w->live == 0) {
        cukern_switch(&w->fibers[me], &w->home);
        return;
    }
    if (w->arrived == w->live) release_barrier(w);
    for (unsigned lanes = warp->collecting; lanes; lanes &= warp->collecting & ~((2u << __builtin_ctz(lanes)) - 1))
        try_complete(warp, &w->waits[me & ~31u], __builtin_ctz(lanes));
    const unsigned next = find_runnable(w);
    if (next == max_threads) report_divergence(w);
    w->current = next;
    cukern_switch(&w->fibers[me], &w->fibers[next]);
}

static void fiber_main() {
    for (;;) {
        Worker* w = worker;
        w->kernel->run_thread(w->launch, w->index[w->current]);
        leave_block(w);
    }
}

static void plain_main() {
    for (;;) {
        Worker* w = worker;
        w->kernel->run_blocks(w->launch, w->first, w->count, w->shared);
        cukern_switch(&w->plain, &w->home);
    }
}

static void prepare_block(Worker* w) {
    const Dim shape = w->launch->block;
    w->threads = shape.x * shape.y * shape.z;
    w->warp_count = (w->threads + 31) / 32;
    if (shape.x != w->shape.x || shape.y != w->shape.y || shape.z != w->shape.z) {
        w->shape = shape;
        for (unsigned i = 0; i < w->threads; ++i) w->index[i] = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
    }
    // Stacks lie a multiple of the cache's way apart; the offset spreads their tops over its sets.
    for (; w->started < w->threads; ++w->started)
        make_context(&w->fibers[w->started], w->fiber_stacks[w->started], fiber_stack_bytes - w->started * 192 % 2048, fiber_main);
}

// Runs `count` blocks from `first` on; false when one of them faulted.
static bool run_fiber_blocks(Worker* w) {
    const Dim grid = w->launch->grid;
    w->block = {(unsigned)(w->first % grid.x), (unsigned)(w->first / grid.x % grid.y), (unsigned)(w->first / grid.x / grid.y)};
    w->faulted = false;
    for (unsigned long long i = 0; i < w->count; ++i) {
        prepare_block(w);
        for (unsigned j = 0; j < w->warp_count; ++j) {
            const unsigned lanes = w->threads - j * 32;
            const unsigned all = lanes < 32 ? (1u << lanes) - 1 : 0xffffffffu;
            w->warps[j] = {all, all, 0, 0};
        }
        w->live = w->threads;
        w->arrived = w->count_true = w->current = 0;
        w->mixed = false;
        w->kernel->begin_block(w->launch, w->block, w->shared);
        w->in_block = w->running = true;
        cukern_switch(&w->home, &w->fibers[0]);
        w->in_block = w->running = false;
        if (w->faulted) return false;
        if (++w->block.x == grid.x) {
            w->block.x = 0;
            if (++w->block.y == grid.y) w->block.y = 0, ++w->block.z;
        }
    }
    return true;
}

static bool run_plain_blocks(Worker* w) {
    w->faulted = false;
    w->running = true;
    cukern_switch(&w->home, &w->plain);
    w->running = false;
    if (w->faulted) make_context(&w->plain, w->plain_stack, plain_stack_bytes, plain_main);
    return !w->faulted;
}
