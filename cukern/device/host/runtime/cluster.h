// Clusters: blocks that run together, as if on neighbouring multiprocessors. The threads of all of them take turns on one
// core. Static shared memory has one place in a kernel's library: a block that does not run has its own in an image, which
// changes places with that of the block that does. So a thread finds its block's memory where the kernel has it, and that of
// the other blocks in their images; what is done beside the threads is done with the block of its thread in place.
#pragma once
#include "shared.h"

static Dim block_of(const Worker* w, unsigned rank) {
    const Dim cluster = w->job->cluster;
    return {w->corner.x + rank % cluster.x, w->corner.y + rank / cluster.x % cluster.y, w->corner.z + rank / cluster.x / cluster.y};
}

static void move_shared(const Build* build, char* to, const char* from) {
    for (unsigned i = 0; i < build->static_count; ++i) {
        const StaticShared& one = build->static_shared[i];
        memcpy(to + (one.offset - build->shared_low), from + (one.offset - build->shared_low), one.bytes);
    }
}

// The first byte of a block's shared memory that is not unset; null if there is none.
static const char* first_set(const Worker* w, unsigned rank) {
    const Build* build = w->job->build;
    const char* at = first_change(dynamic_shared_of(w, rank, w->job->shared), w->job->shared, unset);
    for (unsigned i = 0; !at && i < build->static_count; ++i) {
        const StaticShared& one = build->static_shared[i];
        at = first_change(static_shared_of(w, rank) + (one.offset - build->shared_low), one.bytes, unset);
    }
    return at;
}

static void put_in_place(Worker* w, unsigned rank) {
    move_shared(w->job->build, image_of(w, w->rank), static_place(w));
    move_shared(w->job->build, static_place(w), image_of(w, rank));
    w->rank = rank;
    w->block = block_of(w, rank);
    w->dynamic_shared = dynamic_shared_of(w, rank, w->job->shared);
    w->kernel->begin_block(w->launch, w->block, w->dynamic_shared);
}

static void fail_block(Worker* w, unsigned rank, const char* what) {
    const Dim block = block_of(w, rank);
    Text text = {w->message, message_bytes};
    append(&text, "block (%u, %u, %u): %s", block.x, block.y, block.z, what);
    w->faulted = true;
}

// Before a block's first thread runs, nobody may have touched its memory.
static void begin_block_of_cluster(Worker* w, unsigned rank) {
    w->begun[rank] = true;
    if (!w->checked || !first_set(w, rank)) return;
    fail_block(w, rank, "its shared memory was written before it began: a barrier of the cluster comes first");
    give_up(w);
}

static void bring_block(Worker* w, unsigned rank) {
    if (__builtin_expect(rank == w->rank, 1)) return;
    put_in_place(w, rank);
    if (!w->begun[rank]) begin_block_of_cluster(w, rank);
}

// Where a thread of the block finds an address while another block may be in place.
static const void* now_at(const Worker* w, unsigned rank, const void* address) {
    const size_t offset = (size_t)((const char*)address - static_place(w));
    return offset < w->job->build->shared_span ? static_shared_of(w, rank) + offset : address;
}

static void begin_cluster(Worker* w) {
    memset(w->begun, 0, sizeof w->begun);
    memset(w->ended, 0, sizeof w->ended);
    memset(w->is_seen, 0, sizeof w->is_seen);
    w->begun[0] = true;
}

// After all blocks have ended: what one of them has written to the memory of another that had ended is lost.
static void end_cluster(Worker* w) {
    for (unsigned rank = 0; w->checked && rank < w->cluster; ++rank)
        if (first_set(w, rank))
            return fail_block(w, rank, "its shared memory was written after it had ended: a barrier of the cluster comes last");
}

static void next_cluster_phase(Worker* w) {
    if (w->cluster_arrived < w->live) return;
    w->cluster_arrived = 0;
    ++w->cluster_phase;
}

// A thread has ended, which the others do not wait for; and with the last one of its block the block's memory.
static void leave_cluster(Worker* w, unsigned me) {
    const unsigned rank = w->rank;
    if (w->cluster_came[me] == w->cluster_phase + 1) --w->cluster_arrived;
    if (w->live && w->cluster_arrived) next_cluster_phase(w);
    if (w->cluster == 1) return;
    for (unsigned i = 0; i < w->block_warps; ++i)
        if (w->warps[rank * w->block_warps + i].live) return;
    w->ended[rank] = true;
    on_block_end(rank);
    if (w->checked) poison_shared(w, rank);
}

static unsigned cluster_rank() { return worker->rank; }
static unsigned cluster_size() { return worker->cluster; }
// Of kernels without fibers, whose clusters have one block.
static unsigned no_rank() { return 0; }
static unsigned one_block() { return 1; }
static bool is_perhaps_shared(const void*, unsigned long long) { return true; }
static void* map_to_itself(const void* own, unsigned rank, const char* file, int line) {
    if (rank) fault("the cluster has no block of that rank", file, line, {}, {});
    return (void*)own;
}

[[noreturn]] static void fail_here(Worker* w, const char* what, const char* file, int line) {
    fault(what, file, line, w->block, w->index[w->current]);
    __builtin_unreachable();
}

static void cluster_arrive(bool releases, const char* file, int line) {
    Worker* w = worker;
    w->beside = true;
    unsigned& came = w->cluster_came[w->current];
    if (came) fail_here(w, "a thread arrives twice at its cluster's barrier: cluster_wait comes between", file, line);
    came = w->cluster_phase + 1;
    on_cluster_arrive(came, releases);
    ++w->cluster_arrived;
    next_cluster_phase(w);
}

static bool is_cluster_past(const Wait* wait) {
    return worker->cluster_phase >= (unsigned)wait->value;
}

static void cluster_wait(const char* file, int line) {
    Worker* w = worker;
    unsigned& came = w->cluster_came[w->current];
    if (!came) fail_here(w, "a thread waits at its cluster's barrier before it has arrived", file, line);
    Wait wait{cukern::condition, line, file, 0, 0, 0, came, 0, "cluster_wait", 0, is_cluster_past, 0};
    if (!is_cluster_past(&wait)) wait_for_others(&wait);
    on_cluster_wait(came);
    came = 0;
}

// Bytes of the block in place from the beginning of its dynamic shared memory, or of its static one; false for others.
static bool find_shared(const Worker* w, const void* first, unsigned long long bytes, bool* is_static, size_t* offset) {
    const size_t of_static = (size_t)((const char*)first - static_place(w)), span = w->job->build->shared_span;
    const size_t of_dynamic = (size_t)((const char*)first - w->dynamic_shared), size = w->job->shared;
    *is_static = of_static < span;
    *offset = *is_static ? of_static : of_dynamic;
    return *is_static ? bytes <= span - of_static : of_dynamic < size && bytes <= size - of_dynamic;
}

static bool is_shared(const void* first, unsigned long long bytes) {
    bool is_static;
    size_t offset;
    return find_shared(worker, first, bytes, &is_static, &offset);
}

static void* map_shared(const void* own, unsigned rank, const char* file, int line) {
    Worker* w = worker;
    if (rank >= w->cluster) fail_here(w, "the cluster has no block of that rank", file, line);
    if (w->ended[rank]) fail_here(w, "that block of the cluster has ended: a barrier of the cluster comes last", file, line);
    bool is_static;
    size_t offset;
    if (!find_shared(w, own, 1, &is_static, &offset))
        fail_here(w, "an address that is not in the block's own shared memory", file, line);
    return (is_static ? static_shared_of(w, rank) : dynamic_shared_of(w, rank, w->job->shared)) + offset;
}
