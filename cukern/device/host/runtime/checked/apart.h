// Memory that a launch reads by one argument and writes by another: see set_apart.
#pragma once
#include "memory.h"
#include "report.h"

// A cell that was read by a const argument and written by another one: whether one thread reads it before another has written it,
// nothing says.
static void settle_shared(const Area* read, size_t cell) {
    const u64* const seen = &read->reads[2 * cell];
    const u64 stamp = time_of(seen[1]) > time_of(seen[0]) ? seen[1] : seen[0];
    if (time_of(stamp) <= s.launch_start) return;
    char* const first = originals[read - s.global] + (cell << read->shift);
    for (unsigned i = 0; i < s.area_count; ++i) {
        const Area* r = &s.global[i];
        if (r->constant) continue;
        for (char* at = first; at < first + (1u << read->shift); ++at) {
            const size_t offset = (size_t)(at - originals[i]);
            if (offset >= r->bytes || time_of(r->writes[offset >> r->shift]) <= s.launch_start) continue;
            const Side here = side_of(r->writes[offset >> r->shift], true), other = side_of(stamp, false);
            if (!is_new(race, here.place, other.place)) return;
            Report report = empty_report(race, r, r->start + offset, 1u << read->shift, here);
            report.other = other;
            report.has_other = 1;
            snprintf(report.text, sizeof report.text, "by an argument that is const, and shares its memory");
            return add_report(report);
        }
    }
}

static void settle_shared_memory() {
    for (unsigned i = 0; i < s.area_count; ++i) {
        const Area* r = &s.global[i];
        if (!r->constant || !r->reads || !r->was_read) continue;
        for (size_t cell = 0; cell <= (r->bytes - 1) >> r->shift; ++cell) settle_shared(r, cell);
    }
}
