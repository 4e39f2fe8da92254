// Sums that a store may overwrite: one block sets by an exchange, or a volatile or atomic store, what others add to, and nothing
// orders the two. Right kernels set so what is ordered by other means. So the kernel runs once more, its blocks in another order:
// whether that leaves another value there shows whether sums are lost.
#pragma once
#include "report.h"

static inline bool is_over(u64 stamp, bool shared);

constexpr unsigned most_overwritten = 16;
constexpr unsigned set_count = 1 << 12;  // places, of which each takes that of an earlier one

struct Set {
    uintptr_t at;
    u64 stamp;
};
static Set sets[set_count];
struct Overwritten {
    const Area* area;
    uintptr_t at;
    unsigned size;
    Report report;
};
static Overwritten overwritten[most_overwritten];
static unsigned overwritten_count;

static constexpr bool changes_what_is_there(unsigned how) { return how == sum || how == atomic || how == unseen; }
static Set& set_of(uintptr_t at) { return sets[(at * 0x9e3779b97f4a7c15ull) >> 52]; }

static __attribute__((noinline, cold)) void note_overwritten(Area* r, uintptr_t at, unsigned size, u64 place, bool sets, u64 other) {
    if (s.mode || overwritten_count == most_overwritten) return;
    for (unsigned i = 0; i < overwritten_count; ++i)
        if (overwritten[i].at == at) return;
    Report report = empty_report(race, r, at, size, side_here(place, true, sets ? swap : sum));
    report.other = side_of(other, true);
    report.has_other = 1;
    snprintf(report.text, sizeof report.text, "with nothing that orders the two, and the result depends on it");
    overwritten[overwritten_count++] = {r, at, size, report};
}

// An atomic change of global memory, or a value that is set there, beside what was there last.
static inline void note_set_or_change(Area* r, uintptr_t at, unsigned size, unsigned how, u64 place, u64 written) {
    if (changes_what_is_there(how)) {
        const Set& set = set_of(at);
        const bool is_of_another = set.at == at && time_of(set.stamp) > s.launch_start && time_of(set.stamp) <= s.block_start;
        if (__builtin_expect(is_of_another && !is_over(set.stamp, false), 0)) note_overwritten(r, at, size, place, false, set.stamp);
    } else if (s.sets) {
        set_of(at) = {at, s.head | how | place << place_shift};
        const bool is_of_another = time_of(written) > s.launch_start && time_of(written) <= s.block_start;
        if (changes_what_is_there(how_of(written)) && is_of_another && !is_over(written, false)) note_overwritten(r, at, size, place, true, written);
    }
}
