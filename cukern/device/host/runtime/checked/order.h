// The order in which a checked launch runs threads, and what orders them: see hooks.h, of which these take the place.
#pragma once
#include "hasty.h"
#include "learnt.h"

static unsigned draw() {  // xorshift64
    s.random ^= s.random << 13;
    s.random ^= s.random >> 7;
    s.random ^= s.random << 17;
    return (unsigned)(s.random >> 32);
}

static unsigned choose_lane(unsigned lanes) {
    if (!s.random || !lanes) return (unsigned)__builtin_ctz(lanes | 1u << 31);
    for (unsigned skip = draw() % (unsigned)__builtin_popcount(lanes); skip; --skip) lanes &= lanes - 1;
    return (unsigned)__builtin_ctz(lanes);
}

static void on_switch(unsigned thread) {
    if (s.old_size) put_fresh_back();
    s.me = thread;
    s.rank = rank_of(thread);
    set_head();
}

static void on_warp_sync(unsigned warp, unsigned mask) {
    if (any_learnt) learn_together(32 * warp, 32, mask);
    if (mask == 0xffffffffu) {
        s.warp_time[warp] = s.now;
    } else {
        unsigned together[32] = {};
        for (unsigned rest = mask; rest; rest &= rest - 1)
            for (unsigned lane = 0; lane < 32; ++lane) {
                const unsigned time = s.known[warp][__builtin_ctz(rest)][lane];
                if (time > together[lane]) together[lane] = time;
            }
        for (unsigned rest = mask; rest; rest &= rest - 1) together[__builtin_ctz(rest)] = s.now;
        for (unsigned rest = mask; rest; rest &= rest - 1) memcpy(s.known[warp][__builtin_ctz(rest)], together, sizeof together);
    }
    tick();
}

// By which turns of its loops each thread has come where it is since its warp, or its block, has last met: of kernels with
// __activemask, in which the compiler calls the hook in each branch. Lanes that have left a loop before others may not be active
// together with them behind it.
struct Path {
    u64 turns, branches;  // of the latter, a bit of those it has been in
    u64 last;
};
static Path paths[max_places];
static bool has_paths, parts_lanes;

HOOK void __sanitizer_cov_trace_pc() {
    has_paths = true;
    Path& path = paths[s.me];
    const u64 here = HERE - s.base;  // the same in each process
    const u64 mixed = here * 0x9e3779b97f4a7c15ull, bit = 1ull << (mixed >> 58);
    if (here <= path.last && path.branches & bit) path.turns = (path.turns ^ mixed) * 0x9e3779b97f4a7c15ull + 1;
    path.branches |= bit;
    path.last = here;
}
static void forget_paths(unsigned first, unsigned count, unsigned lanes) {
    for (unsigned i = 0; has_paths && i < count; ++i)
        if (lanes >> i % 32 & 1) paths[first + i] = {};
}
static void on_met(unsigned warp, unsigned lanes) { forget_paths(32 * warp, 32, lanes); }
static unsigned choose_active(const Wait* wait, unsigned lane, unsigned lanes) {
    unsigned alike = 0;
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        const unsigned other = __builtin_ctz(rest);
        alike |= (unsigned)(paths[s.me - lane + other].turns == paths[s.me].turns) << other;
    }
    if (alike == lanes) return lanes;
    const unsigned count = s.report_count;
    found_text(missing_lane, "takes __activemask for lanes of which some may still be in a loop before it", wait->file, wait->line, 0);
    if (s.report_count > count) s.reports[count].doubtful = !s.strict;
    return parts_lanes ? alike : lanes;
}

static void on_barrier(unsigned rank) {
    Cluster& c = s.cluster;
    forget_paths(rank * c.block_threads, c.block_threads, ~0u);
    if (any_learnt) learn_together(rank * c.block_threads, c.block_threads, 0xffffffffu);
    c.barrier_time[rank] = s.now;
    if (c.blocks == 1) s.barrier_time = s.now;
    for (unsigned i = rank * c.block_threads; c.blocks > 1 && i < (rank + 1) * c.block_threads; ++i)
        if (c.waited[i] > c.block_waited[rank]) c.block_waited[rank] = c.waited[i];
    tick();
}

// By a thread's release what its block and its warp did before they met at these times is released too.
static void release_meetings(unsigned slot, unsigned of_block, unsigned of_warp) {
    unsigned &block = s.cluster.block_released[slot][s.rank], &warp = s.cluster.warp_released[slot][s.me / 32];
    if (of_block > block) block = of_block;
    if (of_warp > warp) warp = of_warp;
}
static void note_phases() {
    Cluster& c = s.cluster;
    if (c.with_phases < c.blocks * c.block_threads) c.with_phases = c.blocks * c.block_threads;
}
// A relaxed arrival lets others see what the thread did before its last fence, or its last arrival that was a release.
static void on_cluster_arrive(unsigned phase, bool releases) {
    Cluster& c = s.cluster;
    const unsigned slot = phase & 3, fenced = s.fence_time[s.me], last = c.came[s.me];
    unsigned released = last ? c.came_at[s.me][last & 3] : s.block_start;
    if (learnt_phases[slot] != phase) {
        drop(learnt_by_phase[slot]);
        learnt_phases[slot] = phase;
        const unsigned before = (phase - 1) & 3;
        c.last_came[slot] = c.last_came[before];
        memcpy(c.block_released[slot], c.block_released[before], sizeof c.block_released[slot]);
        memcpy(c.warp_released[slot], c.warp_released[before], sizeof c.warp_released[slot]);
    }
    if (releases) {
        add(learnt_by_phase[slot], learnt_by[s.me]);
        release_meetings(slot, c.barrier_time[s.rank], s.warp_time[s.me / 32]);
        released = c.last_came[slot] = s.now;
    } else if (fenced > released) {
        add(learnt_by_phase[slot], learnt_at_fence[0][s.me]);
        release_meetings(slot, c.block_met[s.me], c.warp_met[s.me]);
        released = fenced;
    }
    c.came_at[s.me][slot] = released;
    c.came[s.me] = phase;
    note_phases();
    tick();
}
static void on_cluster_wait(unsigned phase) {
    s.cluster.waited[s.me] = phase;
    note_phases();
    learn(learnt_by_phase[phase & 3]);
    learn(learnt_by_ended);
    tick();
}
static void on_thread_end(unsigned thread) {
    s.cluster.ended[thread] = true;
    note_phases();
    if (s.cluster.blocks > 1) add(learnt_by_ended, learnt_by[thread]);
}
static void on_block_end(unsigned rank);  // in access.h
static char* shared_place(unsigned rank) { return (char*)s.shared[rank * shared_slots].start; }

// What missing lanes give, while it is tried whether anything depends on it; 0 for the asking lane's own value.
static unsigned long long missing_lanes;

static unsigned long long on_missing_lane(const Wait* wait, unsigned lane, unsigned source) {
    if (missing_lanes) return missing_lanes;
    const unsigned me = s.me, count = s.report_count;
    s.me = me / 32 * 32 + lane;
    char text[160];
    snprintf(text, sizeof text, "reads the value of lane %u, which %s", source,
             wait->mask >> source & 1 ? "has ended or never was" : "the mask leaves out");
    found_text(missing_lane, text, wait->file, wait->line, 0);
    if (s.report_count > count) s.reports[count].doubtful = !s.strict;
    s.me = me;
    return wait->value;
}

// What an instruction of a whole warp does is of all its lanes.
static void on_together(const Wait* wait) {
    s.mode = 1;
    s.together_file = wait->file;
    s.together_line = wait->line;
}
static void on_together_done() { s.mode = 0; }
static unsigned on_send() {
    tick();
    return s.now;
}
static void on_doing(const Operation& operation, unsigned owner, unsigned sent) {
    s.doing = &operation;
    s.sent = sent;
    on_switch(owner);
}
static void on_source(const void* source, unsigned bytes);  // in access.h
static void on_done(unsigned thread) {
    s.doing = 0;
    on_switch(thread);
}
static unsigned beside_depth;
static unsigned char mode_before_beside;
static void on_quiet(bool begins) { s.quiet += begins ? 1 : -1; }
static void on_beside() {
    if (beside_depth++) return;
    mode_before_beside = s.mode;
    s.mode = 2;
}
static void on_beside_done() {
    if (!--beside_depth) s.mode = mode_before_beside;
}
