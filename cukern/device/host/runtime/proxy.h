// Whether what goes on beside the threads sees what they have written to shared memory: after fence_to_async alone. Of each
// block there is a copy of its shared memory as the hardware's copies and products see it. A fence brings that of its thread's
// block up to date, with more than its thread need have seen: what other threads wrote just before, and did not pass on, is
// noticed by checked launches alone. PTX's fence is likewise for shared::cta, the memory of the thread's own block.
#pragma once
#include <stdlib.h>

#include "cluster.h"

static const char not_in_shared[] = "what goes on beside reads an address that is not in the block's shared memory";
static const char not_passed_on[] = "what goes on beside reads shared memory that was written and not passed on: each thread "
                                    "that writes calls fence_to_async, then comes a barrier";
static const char init_not_passed_on[] = "what goes on beside counts at an mbarrier whose mbarrier_init was not passed on: the "
                                         "thread that calls it calls fence_mbarrier_init, then comes a barrier";

// Static shared memory first, then dynamic. Before the first fence it is as at the start of the block.
static char* seen_shared(Worker* w, unsigned rank) {
    const size_t bytes = w->job->build->shared_span + w->job->shared;
    if (w->seen_bytes[rank] < bytes) {
        const Whole own(w);
        free(w->seen[rank]);
        w->seen_bytes[rank] = (w->seen[rank] = (char*)malloc(bytes)) ? bytes : 0;
        if (!w->seen[rank]) fail_beside(w, "no memory for a copy of shared memory");
        w->is_seen[rank] = false;
    }
    if (!w->is_seen[rank]) memset(w->seen[rank], unset, bytes);
    w->is_seen[rank] = true;
    return w->seen[rank];
}

static void free_seen(Worker* w) {
    for (char* seen : w->seen) free(seen);
}

static void fence_to_async() {
    Worker* w = worker;
    if (!w->checked) return;
    const size_t span = w->job->build->shared_span, bytes = w->job->shared;
    char* const seen = seen_shared(w, w->rank);
    memcpy(seen, static_place(w), span);
    memcpy(seen + span, w->dynamic_shared, bytes);
}

// Where what goes on beside sees an address in the shared memory of a block of the cluster; null for others.
static char* seen_at(Worker* w, const void* first) {
    const size_t span = w->job->build->shared_span;
    for (unsigned rank = 0; rank < w->cluster; ++rank) {
        const size_t of_static = (size_t)((const char*)first - static_shared_of(w, rank));
        const size_t of_dynamic = (size_t)((const char*)first - dynamic_shared_of(w, rank, w->job->shared));
        if (of_static < span) return seen_shared(w, rank) + of_static;
        if (of_dynamic < w->job->shared) return seen_shared(w, rank) + span + of_dynamic;
    }
    return 0;
}

// The hardware itself has written these bytes.
static void wrote_async(const void* first, unsigned long long bytes) {
    Worker* w = worker;
    if (!w->checked) return;
    if (char* const seen = seen_at(w, first)) memcpy(seen, first, bytes);
}

static void require_same_init(const cukern::MBarrier* barrier, const void* seen, const char* file, int line) {
    if (((const cukern::MBarrier*)seen)->expected != barrier->expected) fail_here(worker, init_not_passed_on, file, line);
}

static void counts_async(const cukern::MBarrier* barrier, const char* file, int line) {
    Worker* w = worker;
    if (!w->checked) return;
    if (const char* const seen = seen_at(w, barrier)) require_same_init(barrier, seen, file, line);
}

// What the running thread lets be done beside is going to read these bytes.
static void reads_async(const void* first, unsigned long long bytes, const char* file, int line) {
    Worker* w = worker;
    bool is_static;
    size_t offset;
    if (!find_shared(w, first, bytes, &is_static, &offset))
        fail_here(w, not_in_shared, file, line);
    if (!w->checked) return;
    if (!is_static) offset += w->job->build->shared_span;
    if (memcmp(seen_shared(w, w->rank) + offset, first, bytes))
        fail_here(w, not_passed_on, file, line);
}

static void fence_without_fibers() {}
