// The barriers in a block's memory that the prelude makes of words: mbarriers and others.
#pragma once
#include "atomics.h"

// The words of an mbarrier are watched by who has made it: what the first of its cell's `reads` is, as no thread reads them.
static u64* init_of(const void* barrier, Area*& area) {
    const uintptr_t at = (uintptr_t)barrier;
    if (!s.on || at - s.shared_arena >= shared_span) return 0;
    area = &s.shared[(at - s.shared_arena) >> shared_slot_shift];
    return at - area->start < area->bytes ? &area->reads[(at - area->start) >> area->shift << 1] : 0;
}
static unsigned last_init;  // when
static void note_init(const void* barrier, uintptr_t pc) {
    Area* area;
    last_init = s.now;
    if (u64* init = init_of(barrier, area)) *init = s.head | beside | ((pc - s.base) & place_mask) << place_shift;
}
// When each thread has last passed on what it wrote to what goes on beside the threads, as fence_mbarrier_init does, which also
// releases to the cluster what was made: then threads may arrive relaxed.
static unsigned passed_on[max_places];
static void note_passed_on() {
    passed_on[s.me] = s.now;
    tick();
}
static __attribute__((noinline, cold)) void found_use(const cukern::BarrierUse& use, const Area* area, u64 init) {
    const unsigned phase = has_waited(s.me), maker = thread_of(init);
    if (phase && s.cluster.came[maker] >= phase && passed_on[maker] >= time_of(init)) return;
    if (!is_new(race, (u64)use.file ^ use.line, init >> place_shift)) return;
    Report report = empty_report(race, area, (uintptr_t)use.barrier, sizeof(cukern::MBarrier), side_here(0, false, plain));
    report.file = use.file, report.line = use.line;
    report.other = side_of(init, true);
    report.has_other = 1;
    snprintf(report.text, sizeof report.text, "by mbarrier_init, with no barrier in between");
    add_report(report);
}
static void note_use(const cukern::BarrierUse& use) {
    if (last_init <= s.barrier_time) return;  // as for most
    Area* area;
    const u64* const init = init_of(use.barrier, area);
    if (init && how_of(*init) == beside && !is_over(*init, true)) found_use(use, area, *init);
}

// What the prelude's own barriers are to the order of threads.
static void order(unsigned what, const void* at) {
    if (what > 7) return on_quiet(what == 8);
    if (what > 5) step_at(what == 6 ? arrives : passes, HERE, at), what -= 4;
    switch (what) {
        case 0: return on_quiet(false), on_beside_done();
        case 1: return on_quiet(true), on_beside();
        case 2: return s.on ? release((uintptr_t)at, s.now, everywhere, learnt_by[s.me]) : (void)0;
        case 3: return s.on && s.shown ? acquire_now((uintptr_t)at, true) : (void)0;
        case 4: return note_use(*(const cukern::BarrierUse*)at), on_quiet(true), on_beside();
        default: note_init(at, HERE);
    }
}
