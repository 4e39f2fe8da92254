// Memory that kernels allocate: pieces far apart, of which none takes the place of another one while the launch lasts.
//
// A piece may live longer than its launch. Before each run the pieces that were there before the launch get what they held
// then, and those of the run before are forgotten.
#pragma once
#include "report.h"

struct Allocation {
    Area area;
    bool freed, was_freed;  // now, and before the launch
    bool old;               // older than the launch
    bool known;             // somebody has a pointer to it
    Side made, freed_by;
};

constexpr size_t least_gap = 1024, most_gap = 1 << 20;
static uintptr_t heap;
static u64 heap_room, heap_used;
static Allocation* allocations;  // in the order of their places
static u64 allocation_room;      // in bytes
static unsigned allocation_count, old_count;
static char* heap_before;  // what the old ones held before the launch

static bool give_cells(Area* area);  // in memory.h
static void settle_suspects();       // in access.h

static bool is_in_heap(uintptr_t at) { return at - heap < heap_room; }

// The last piece that begins at a place or before it, or null.
static Allocation* allocation_at(uintptr_t at) {
    unsigned low = 0, high = allocation_count;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (allocations[middle].area.start <= at) low = middle;
        else high = middle;
    }
    return high && allocations[low].area.start <= at ? &allocations[low] : 0;
}

static cukern::Allocated* head_of(const Allocation& one) { return (cukern::Allocated*)one.area.start - 1; }

static __attribute__((noinline, cold)) void found_in_heap(
    Kind kind, const Allocation* one, uintptr_t at, unsigned size, bool writes, u64 place, const Side& other, const char* text) {
    if (!is_new(kind, place, 0)) return;
    Report report = empty_report(kind, &one->area, at, size, side_here(place, writes, plain));
    report.other = other;
    report.has_other = 1;
    snprintf(report.text, sizeof report.text, "%s", text);
    add_report(report);
}

// The piece that an access is in; null where that is reported.
static Area* area_in_heap(uintptr_t at, unsigned size, bool writes, u64 place) {
    Allocation* one = allocation_at(at);
    if (!one) return found(out_of_bounds, 0, at, size, writes, place), (Area*)0;
    const bool inside = at - one->area.start < one->area.bytes;
    if (inside && one->freed) found_in_heap(use_after_free, one, at, size, writes, place, one->freed_by, "");
    else if (!inside || one->area.bytes - (at - one->area.start) < size) found_in_heap(out_of_bounds, one, at, size, writes, place, one->made, "");
    else return &one->area;
    return 0;
}

static void* allocate(size_t bytes, u64 place) {
    const size_t gap = bytes < least_gap ? least_gap : bytes < most_gap ? bytes : most_gap;
    const u64 from = heap_used + gap, end = (from + bytes + 15) & ~15ull;
    if (bytes > heap_room || end + gap > heap_room || (allocation_count + 1) * sizeof(Allocation) > allocation_room) return 0;
    Allocation* one = &allocations[allocation_count];
    *one = {};
    Area& area = one->area;
    area.start = heap + ((from + 15) & ~15ull);
    area.bytes = bytes;
    area.shift = 2;
    area.itemsize = 1;
    area.number = heap_region;
    area.begins_unset = true;
    if (!give_cells(&area)) return 0;
    one->made = side_here(place, false, plain);
    head_of(*one)->check = ~cukern::check_of(head_of(*one));
    memset((void*)area.start, fill, bytes);
    heap_used = end;
    ++allocation_count;
    return (void*)area.start;
}

static void free_allocation(uintptr_t at, u64 place) {
    Allocation* one = is_in_heap(at) ? allocation_at(at) : 0;
    if (one && one->area.start == at && !one->freed) {
        one->freed = true;
        one->freed_by = side_here(place, false, plain);
        head_of(*one)->check = 0;
        if (one->area.bytes > 1 << 16) {
            const uintptr_t from = (at + 4095) & ~4095ull;
            madvise((void*)from, (at + one->area.bytes - from) & ~4095ull, MADV_DONTNEED);
        }
        return;
    }
    if (one && one->area.start == at) return found_in_heap(bad_free, one, at, 0, false, place, one->freed_by, "is freed again");
    if (one) return found_in_heap(bad_free, one, at, 0, false, place, one->made, "is freed: no piece begins there");
    cukern::Allocated* made = (cukern::Allocated*)at - 1;  // of a launch that was not checked
    const bool known = at - s.arena < s.arena_bytes || at - s.shared_arena < shared_span || at - s.low < s.high - s.low || at % sizeof *made;
    if (!known && made->check == cukern::check_of(made)) return;  // it may be read in another run
    if (!is_new(bad_free, place, 0)) return;
    Area* area = at - s.arena < s.arena_bytes ? &s.global[(at - s.arena) >> s.slot_shift] : 0;
    if (at - s.shared_arena < shared_span) area = &s.shared[(at - s.shared_arena) >> shared_slot_shift];
    Report report = empty_report(bad_free, area, at, 1, side_here(place, false, plain));
    snprintf(report.text, sizeof report.text, "is freed: malloc has not given it");
    add_report(report);
}

// Before a launch: all pieces are old, those at the end that were freed are forgotten.
static bool begin_heap() {
    while (allocation_count && allocations[allocation_count - 1].freed) --allocation_count;
    old_count = allocation_count;
    heap_used = old_count ? allocations[old_count - 1].area.start + allocations[old_count - 1].area.bytes - heap : 0;
    size_t bytes = 1;
    for (unsigned i = 0; i < old_count; ++i) {
        Allocation& one = allocations[i];
        one.old = true;
        one.was_freed = one.freed;
        one.area.begins_unset = false;
        one.made = one.freed_by = {};
        if (!one.freed) bytes += one.area.bytes;
        if (!give_cells(&one.area)) return false;
    }
    char* more = (char*)realloc(heap_before, bytes);
    if (more) heap_before = more;
    return more;
}

static void keep_heap(bool again) {
    char* kept = heap_before;
    for (unsigned i = 0; i < old_count; ++i) {
        Allocation& one = allocations[i];
        if (one.was_freed) continue;
        if (again) memcpy((void*)one.area.start, kept, one.area.bytes);
        else memcpy(kept, (const void*)one.area.start, one.area.bytes);
        kept += one.area.bytes;
        one.freed = false;
        head_of(one)->check = ~cukern::check_of(head_of(one));
    }
    allocation_count = old_count;
    heap_used = old_count ? allocations[old_count - 1].area.start + allocations[old_count - 1].area.bytes - heap : 0;
}

static void find_pointers(uintptr_t at, size_t bytes) {
    for (uintptr_t word = (at + 7) & ~7ull; word + 8 <= at + bytes; word += 8) {
        uintptr_t value;
        memcpy(&value, (const void*)word, 8);
        Allocation* one = is_in_heap(value) ? allocation_at(value) : 0;
        if (one && value - one->area.start <= one->area.bytes) one->known = true;
    }
}

// After the last run: the pieces of this launch to which nothing that stays has a pointer are lost. Memory that is not
// watched may have one.
static void find_leaks() {
    unsigned left = 0;
    for (unsigned i = old_count; i < allocation_count; ++i) left += !allocations[i].freed;
    if (!left || s.report_count || s.wrote_elsewhere) return;
    for (unsigned i = 0; i < s.area_count; ++i)
        if (!s.global[i].constant) find_pointers(s.global[i].start, s.global[i].bytes);
    for (unsigned i = 0; i < s.variable_count; ++i) find_pointers(s.variables[i].start, s.variables[i].bytes);
    for (unsigned i = 0; i < allocation_count; ++i)
        if (!allocations[i].freed) find_pointers(allocations[i].area.start, allocations[i].area.bytes);
    for (unsigned i = old_count; i < allocation_count; ++i) {
        Allocation& one = allocations[i];
        if (one.freed || one.known || !is_new(leak, one.made.place, 0)) continue;
        Report report = empty_report(leak, &one.area, one.area.start, 1, one.made);
        add_report(report);
    }
}

static void end_heap() {
    find_leaks();
    for (unsigned i = 0; i < allocation_count; ++i) allocations[i].known = false;
    unsigned live = 0;
    for (unsigned i = 0; i < allocation_count; ++i) live += !allocations[i].freed;
    if (live || !heap_used) return;
    madvise((void*)heap, heap_used, MADV_DONTNEED);
    allocation_count = heap_used = 0;
}

HOOK void* cukern_allocate(size_t bytes) {
    if (s.suspect_count) settle_suspects();
    return allocate(bytes, (HERE - s.base) & place_mask);
}
HOOK void cukern_free(void* at) {
    if (s.suspect_count) settle_suspects();
    if (at) free_allocation((uintptr_t)at, (HERE - s.base) & place_mask);
}
