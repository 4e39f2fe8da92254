// Shared memory: exactly as much as was asked for, and in a user's kernel nothing that an earlier block left.
#pragma once
#include "job.h"

constexpr size_t shared_bytes = 232448;
constexpr size_t shared_pages = 262144;        // which that fits into, a multiple of every page size in use
constexpr size_t shared_guard_bytes = 1 << 20;  // no access, behind them
constexpr size_t shared_front_bytes = 64;
constexpr unsigned char unset = 0xff;  // NaN, -1
constexpr unsigned char unused = 0xa5;

constexpr size_t image_alignment = 65536;  // of an image of static shared memory, as that has itself

static size_t image_stride(const Build* build) {
    return (build->shared_span + 2 * image_alignment - 1) & ~(image_alignment - 1);
}

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

static unsigned blocks_of(Dim cluster) { return cluster.x * cluster.y * cluster.z; }

// Memory for the shared variables of a kernel's blocks; those of the block that runs lie where the kernel has them.
static bool make_shared(Worker* w, const Job* job) {
    const unsigned blocks = blocks_of(job->cluster);
    for (unsigned rank = 0; rank < blocks; ++rank)
        if (!w->shared[rank] && !(w->shared[rank] = map_guarded(guard_bytes, shared_pages, shared_guard_bytes))) return false;
    const size_t bytes = blocks > 1 ? blocks * image_stride(job->build) : 0;
    if (bytes <= w->images_bytes) return true;
    if (w->images) munmap(w->images, w->images_bytes);
    w->images_bytes = (w->images = (char*)map(bytes)) ? bytes : 0;
    return w->images;
}

static void free_shared(Worker* w) {
    for (char* shared : w->shared)
        if (shared) munmap(shared - guard_bytes, guard_bytes + shared_pages + shared_guard_bytes);
    if (w->images) munmap(w->images, w->images_bytes);
}

// Dynamic shared memory ends with the pages, but for what its alignment takes, which is that of swizzled tiles where there may be
// any; in a checked launch it is watched elsewhere.
static char* dynamic_shared_of(const Worker* w, unsigned rank, size_t bytes) {
#ifdef CUKERN_CHECKED
    return shared_place(rank);
#endif
    const size_t alignment = bytes < 1024 ? 128 : 1024;
    return w->shared[rank] + shared_pages - ((bytes + alignment - 1) & ~(alignment - 1));
}

static char* static_place(const Worker* w) { return (char*)w->thread_index + w->job->build->shared_low; }

// Where a block's static shared memory is when another one's is in place; it has the same alignment.
static char* image_of(const Worker* w, unsigned rank) {
    return w->images + rank * image_stride(w->job->build) + (uintptr_t)static_place(w) % image_alignment;
}

static char* static_shared_of(const Worker* w, unsigned rank) { return rank == w->rank ? static_place(w) : image_of(w, rank); }

// The running thread, or the blocks of which one runs where the kernel does not keep its threadIdx.
static void append_running(const Worker* w, Text* text) {
    if (!w->thread_index) {
        append(text, "blocks %llu to %llu", w->first, w->first + w->count - 1);
        return;
    }
    const Dim thread = w->doing ? w->index[w->doing_for] : w->in_block ? w->index[w->current] : w->thread_index[0];
    const Dim block = w->in_block ? w->block : w->thread_index[1];
    append(text, "block (%u, %u, %u), thread (%u, %u, %u)", block.x, block.y, block.z, thread.x, thread.y, thread.z);
}

// Marks what lies beside the dynamic shared memory of each block that runs, before the first of several.
static void mark_beside_shared(const Worker* w) {
    for (unsigned rank = 0; rank < blocks_of(w->job->cluster); ++rank) {
        char *const begin = dynamic_shared_of(w, rank, w->job->shared), *const end = begin + w->job->shared;
        memset(begin - shared_front_bytes, unused, shared_front_bytes);
        memset(end, unused, w->shared[rank] + shared_pages - end);
    }
}

static void poison_shared(Worker* w, unsigned rank) {
    const Build* build = w->job->build;
    memset(dynamic_shared_of(w, rank, w->job->shared), unset, w->job->shared);
    char* const variables = static_shared_of(w, rank) - build->shared_low;
    for (unsigned i = 0; i < build->static_count; ++i)
        memset(variables + build->static_shared[i].offset, unset, build->static_shared[i].bytes);
}

// The first byte that is not `value`; null if all are.
static const char* first_change(const char* from, size_t bytes, unsigned char value) {
    if (!bytes || ((unsigned char)from[0] == value && !memcmp(from, from + 1, bytes - 1))) return 0;
    while ((unsigned char)*from == value) ++from;
    return from;
}

static void append_shared(Text* text, const Worker* w, unsigned rank, const char* at) {
    append(text, "byte %lld of dynamic shared memory, where the launch asked for %zu bytes: shared=...",
           (long long)(at - dynamic_shared_of(w, rank, w->job->shared)), w->job->shared);
}

// Makes a fault of a write beside the dynamic shared memory of a block.
static void check_shared(Worker* w, unsigned rank, Dim block) {
    if (!w->job->shared) return;
    const char *const begin = dynamic_shared_of(w, rank, w->job->shared), *const end = begin + w->job->shared;
    const char* at = first_change(end, w->shared[rank] + shared_pages - end, unused);
    if (!at) at = first_change(begin - shared_front_bytes, shared_front_bytes, unused);
    if (!at) return;
    Text text = {w->message, message_bytes};
    append(&text, "block (%u, %u, %u): wrote to ", block.x, block.y, block.z);
    append_shared(&text, w, rank, at);
    w->faulted = true;
}
