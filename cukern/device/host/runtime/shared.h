// Shared memory: exactly as much as was asked for, and in a user's kernel nothing that an earlier block left.
#pragma once
#include "job.h"

constexpr size_t shared_bytes = 232448;
constexpr size_t shared_pages = 262144;        // which that fits into, a multiple of every page size in use
constexpr size_t shared_guard_bytes = 1 << 20;  // no access, behind them
constexpr size_t shared_front_bytes = 64;
constexpr unsigned char unset = 0xff;  // NaN, -1
constexpr unsigned char unused = 0xa5;

static void* map(size_t size) {
    void* base = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? 0 : base;
}

// Pages with pages around them that allow no access; null when there is no memory.
static char* map_guarded(size_t before, size_t size, size_t after) {
    char* base = (char*)map(before + size + after);
    if (!base) return 0;
    if (!mprotect(base, before, PROT_NONE) && !mprotect(base + before + size, after, PROT_NONE)) return base + before;
    munmap(base, before + size + after);
    return 0;
}

static bool make_shared(Worker* w) {
    if (!w->shared) w->shared = map_guarded(guard_bytes, shared_pages, shared_guard_bytes);
    return w->shared;
}

static void free_shared(Worker* w) {
    if (w->shared) munmap(w->shared - guard_bytes, guard_bytes + shared_pages + shared_guard_bytes);
}

// Dynamic shared memory ends with the pages, but for what its alignment takes.
static char* dynamic_shared_of(const Worker* w, size_t bytes) {
    return w->shared + shared_pages - ((bytes + 127) & ~(size_t)127);
}

// The running thread, or the blocks of which one runs where the kernel does not keep its threadIdx.
static void append_running(const Worker* w, Text* text) {
    if (!w->thread_index) {
        append(text, "blocks %llu to %llu", w->first, w->first + w->count - 1);
        return;
    }
    const Dim thread = w->in_block ? w->index[w->current] : w->thread_index[0];
    const Dim block = w->in_block ? w->block : w->thread_index[1];
    append(text, "block (%u, %u, %u), thread (%u, %u, %u)", block.x, block.y, block.z, thread.x, thread.y, thread.z);
}

// Marks what lies beside the dynamic shared memory, before the first block of several.
static void mark_beside_shared(const Worker* w) {
    char* const end = w->dynamic_shared + w->job->shared;
    memset(w->dynamic_shared - shared_front_bytes, unused, shared_front_bytes);
    memset(end, unused, w->shared + shared_pages - end);
}

static void poison_shared(Worker* w) {
    const Job* job = w->job;
    const Function* function = job->function;
    memset(w->dynamic_shared, unset, job->shared);
    for (unsigned i = 0; i < function->static_count; ++i)
        memset((char*)w->thread_index + function->static_shared[i].offset, unset, function->static_shared[i].bytes);
}

// The first byte that is not `value`; null if all are.
static const char* first_change(const char* from, size_t bytes, unsigned char value) {
    if (!bytes || ((unsigned char)from[0] == value && !memcmp(from, from + 1, bytes - 1))) return 0;
    while ((unsigned char)*from == value) ++from;
    return from;
}

static void append_shared(Text* text, const Worker* w, const char* at) {
    append(text, "byte %lld of dynamic shared memory, where the launch asked for %zu bytes: shared=...",
           (long long)(at - w->dynamic_shared), w->job->shared);
}

// Makes a fault of a write beside the dynamic shared memory.
static void check_shared(Worker* w) {
    if (!w->job->shared) return;
    const char* const end = w->dynamic_shared + w->job->shared;
    const char* at = first_change(end, w->shared + shared_pages - end, unused);
    if (!at) at = first_change(w->dynamic_shared - shared_front_bytes, shared_front_bytes, unused);
    if (!at) return;
    Text text = {w->message, message_bytes};
    append(&text, "block (%u, %u, %u): wrote to ", w->block.x, w->block.y, w->block.z);
    append_shared(&text, w, at);
    w->faulted = true;
}
