// Findings: each place of the kernel's code once for each kind.
#pragma once
#include "state.h"

// The number of a thread's block in the grid, of which `first` is the number of its cluster's first one.
static u64 block_number(u64 first, unsigned thread) {
    const unsigned rank = rank_of(thread);
    if (!rank) return first;
    const Dim grid = s.cluster.grid, cluster = s.cluster.shape;
    return first + rank % cluster.x + (u64)grid.x * (rank / cluster.x % cluster.y + (u64)grid.y * (rank / cluster.x / cluster.y));
}

static u64 current_block() { return s.block_count ? block_number(s.blocks[s.block_count - 1].index, s.me) : 0; }

static unsigned in_block(unsigned thread) { return s.cluster.blocks > 1 ? thread % s.cluster.block_threads : thread; }

static Side side_here(u64 place, bool writes, unsigned how) { return {place, current_block(), in_block(s.me), writes, how}; }

static Side side_of(u64 stamp, bool writes) {
    const u64 place = stamp >> place_shift & place_mask;
    const unsigned thread = thread_of(stamp);
    return {place, block_number(s.blocks[block_run_of(time_of(stamp))].index, thread), in_block(thread), writes, how_of(stamp)};
}

// Whether a finding of this key is new.
static bool is_new(unsigned kind, u64 place, u64 other) {
    u64 key = ((u64)kind + 1) * 0x9e3779b97f4a7c15ull ^ place * 0xc2b2ae3d27d4eb4full ^ other * 0x165667b19e3779f9ull;
    key |= 1;
    for (u64 at = key >> 20 & 1023, tries = 0; tries < 1024; ++tries, at = (at + 1) & 1023) {
        if (s.seen[at] == key) return false;
        if (!s.seen[at]) return s.seen[at] = key, true;
    }
    return false;
}

static int number_of(const Area* area) { return !area ? -1 : area->shared ? 1000 + area->number : area->number; }

static Report empty_report(Kind kind, const Area* area, uintptr_t at, unsigned size, Side here) {
    Report report = {};
    report.kind = kind;
    report.region = number_of(area);
    report.size = size;
    report.offset = area ? (long long)(at - area->start) : (long long)at;
    report.bytes = area ? area->bytes : 0;
    report.here = here;
    if (s.mode == 1) report.file = s.together_file, report.line = s.together_line;
    if (s.doing) report.here.place = 0, report.file = s.doing->file, report.line = s.doing->line;
    return report;
}

static void add_report(const Report& report) {
    ++s.all_reports;
    if (s.report_count < max_reports) s.reports[s.report_count++] = report;
}

static __attribute__((noinline, cold)) void found(Kind kind, const Area* area, uintptr_t at, unsigned size, bool writes, u64 place) {
    if (!is_new(kind, place, 0)) return;
    add_report(empty_report(kind, area, at, size, side_here(place, writes, plain)));
}

// A read of shared memory that nothing has set, or some of it: the latter may be of a struct's padding.
static __attribute__((noinline, cold)) void found_unset(const Area* area, uintptr_t at, unsigned size, u64 place, bool whole) {
    const bool doubtful = s.mode || !whole;
    if (!is_new(unset_read, place, doubtful)) return;
    Report report = empty_report(unset_read, area, at, size, side_here(place, false, plain));
    report.doubtful = doubtful;
    for (unsigned i = 0; i < s.report_count; ++i) {
        Report& other = s.reports[i];
        if (other.kind != unset_read || other.here.place != place || other.file != report.file || other.line != report.line) continue;
        if (!doubtful) other = report;
        return;
    }
    add_report(report);
}

// A finding that a text describes: a fault that ended a block, for example.
static void found_text(Kind kind, const char* text, const char* file, int line, u64 place) {
    u64 key = place + line;
    for (const char* c = text; *c && !place && !file; ++c) key = key * 31 + (unsigned char)*c;
    if (!is_new(kind, key, (u64)file)) return;
    Report report = empty_report(kind, 0, 0, 0, side_here(place, false, plain));
    report.file = file;
    report.line = line;
    snprintf(report.text, sizeof report.text, "%s", text);
    add_report(report);
}
