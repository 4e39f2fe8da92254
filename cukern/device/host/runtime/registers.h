// Whether wgmma_fence has passed on the registers that a product of a warpgroup is given: accumulators, and words of A. Those that
// a thread has given are kept as they were at its last fence, or as a product has left them since: if they differ, the thread has
// written them after that. Products follow each other on the same accumulators without a fence. That a thread has only read
// registers is not noticed.
#pragma once
#include <stdlib.h>

#include "cluster.h"

constexpr unsigned max_given = 32;  // of a thread; of more, the oldest are forgotten

struct Given {
    const void* at;
    unsigned bytes;
    int begun;  // the line of the last product that began them anew
    char kept[512];
};

static const char unfenced_registers[] = "wgmma is given registers that were not passed on to it: wgmma_fence comes before the "
                                         "first wgmma, and after a thread has touched d, or words of A";

#ifdef CUKERN_CHECKED
static bool watches_registers(const Worker*) { return true; }
#else
static bool watches_registers(const Worker* w) { return w->checked; }
#endif

static Given* given_by(Worker* w, unsigned thread) {
    if (w->given_threads < w->threads) {
        const Whole own(w);
        free(w->given);
        w->given_threads = (w->given = (Given*)malloc(w->threads * max_given * sizeof(Given))) ? w->threads : 0;
        if (!w->given) fail_beside(w, "no memory for what products are given");
    }
    return w->given + thread * max_given;
}

static Given* find_given(Worker* w, unsigned thread, const void* at, unsigned bytes) {
    Given* const all = given_by(w, thread);
    for (unsigned i = 0; i < w->given_count[thread] && i < max_given; ++i)
        if (all[i].at == at && all[i].bytes == bytes) return &all[i];
    return 0;
}

static void fence_registers() {
    Worker* w = worker;
    if (!watches_registers(w)) return;
    const unsigned me = w->current;
    w->beside = true;
    w->fenced[me] = true;
    for (unsigned i = 0; i < w->given_count[me] && i < max_given; ++i) {
        Given& one = w->given[me * max_given + i];
        memcpy(one.kept, one.at, one.bytes);
    }
}

// The running thread gives a product these registers; `anew`: what is in them does not matter. Then the compiler may have had
// another variable in the same place before, unless the same line began with that.
static void gives_registers(const void* first, unsigned bytes, bool anew, const char* file, int line) {
    Worker* w = worker;
    if (!watches_registers(w)) return;
    const unsigned me = w->current;
    Given* one = find_given(w, me, first, bytes);
    const bool differs = one && (!anew || one->begun == line) && memcmp(one->kept, first, bytes);
    if (!w->fenced[me] || differs) fail_here(w, unfenced_registers, file, line);
    if (!one) *(one = given_by(w, me) + w->given_count[me]++ % max_given) = {first, bytes, 0, {}};
    if (anew) one->begun = line;
    memcpy(one->kept, first, bytes);
}

// A product has written registers of a lane of its warp.
static void wrote_registers(unsigned lane, const void* first, unsigned bytes) {
    Worker* w = worker;
    if (!watches_registers(w)) return;
    if (Given* one = find_given(w, w->doing_for + lane, first, bytes)) memcpy(one->kept, first, bytes);
}

static void forget_given(Worker* w) {
    memset(w->fenced, 0, w->threads * sizeof *w->fenced);
    memset(w->given_count, 0, w->threads * sizeof *w->given_count);
}
