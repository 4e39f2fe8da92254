// Each access of a kernel to memory, which the compiler announces (-fsanitize=thread) before it is done.
#pragma once
#include "hasty.h"
#include "heap.h"
#include "ordered.h"
#include "overwritten.h"
#include "trace.h"
#include "windows.h"

static void note_repeated(bool by_blocks, int region, uintptr_t at) {
    Span& span = s.repeated[by_blocks];
    if (!span.low || span.region != region) span = {region, at, at};
    if (at < span.low) span.low = at;
    if (at > span.high) span.high = at;
    if (span.high - span.low > s.repeated_bytes[by_blocks]) s.repeated_bytes[by_blocks] = span.high - span.low;
}

static void settle_suspects() {
    const unsigned count = s.suspect_count;
    s.suspect_count = 0;
    for (unsigned i = 0; i < count; ++i) {
        const Suspect& one = s.suspects[i];
        const bool repeats = !memcmp((const void*)one.at, one.bytes, one.size);
        if (repeats && one.area->number >= 0 && !one.area->shared) note_repeated(one.report.here.block != one.report.other.block, one.area->number, one.at);
        if (!s.strict && repeats)  // two writes of one value are no race
            one.area->writes[one.cell] = one.before;
        else if (is_new(race, one.report.here.place, one.report.other.place))
            add_report(one.report);
    }
}

// Before the next access. Copies of structs announce their writes first, and then their reads, before anything is copied:
// so the first reads after a write do not tell that it is done.
static __attribute__((noinline)) void settle_before(bool only_reads) {
    if (s.in_range) return;
    if (only_reads && !s.read_since_suspect) s.read_since_suspect = true;
    else settle_suspects();
}

static bool are_tolerated(unsigned how, bool writes, u64 other, bool other_writes) {
    const unsigned other_how = how_of(other);
    if (how == beside || (other_how == beside && other_writes)) return true;
    if (is_atomic(how) && is_atomic(other_how)) return !s.of_block[s.me] || !writes || time_of(other) > s.block_start;
    if (s.strict) return false;
    // A plain read beside an atomic write: of a loop that compares and swaps, which tries again if the read was too old.
    return (is_atomic(how) && !other_writes) || (is_atomic(other_how) && !writes);
}

// Whether one of two accesses that are not ordered reads what the other one writes, both volatile.
static bool is_look(unsigned how, bool writes, u64 other, bool other_writes) {
    const unsigned writer = writes ? how : how_of(other), reader = writes ? how_of(other) : how;
    return writes != other_writes && reader == loose && is_looked_for(writer);
}

// Whether the running thread knows of a volatile write to a cell by having looked there, or by one who has.
static bool has_looked(const Area* r, size_t cell, u64 written, uintptr_t at) {
    if (s.spun_at[s.me] == at) return true;
    unsigned later = 0;
    for (unsigned i = 0; i < 2; ++i) {
        const u64 seen = r->reads[2 * cell + i];
        if (time_of(seen) < time_of(written) && how_of(seen) != covered) continue;
        if (how_of(seen) != covered && (thread_of(seen) == s.me || is_over(seen, r->shared))) return true;
        ++later;
    }
    return later == 2;  // by others, who have taken the places of its own
}

static __attribute__((noinline)) void meet(
    Area* r, size_t cell, u64 other, bool other_writes, uintptr_t at, unsigned size, bool writes, unsigned how, u64 place) {
    const bool overwrites = how == loose && writes && other_writes && how_of(other) == loose && !has_looked(r, cell, other, at);
    if (!overwrites && are_tolerated(how, writes, other, other_writes)) {
        s.meets_atomics |= is_atomic(how) != is_atomic(how_of(other));
        if (how == plain && !writes && counts_for_reads(how_of(other), r->shared)) note_hasty(place);
        if (how_of(other) == plain && !other_writes && counts_for_reads(how, r->shared)) note_hasty(other >> place_shift & place_mask);
        if (is_look(how, writes, other, other_writes)) note_hasty(writes ? other >> place_shift & place_mask : place);
        if ((how != atomic && how != loose) || writes || r->shared || !is_told_of(other, at)) return;
        if (!is_new(race, place, other >> place_shift & place_mask)) return;
        Report report = empty_report(race, r, at, size, side_here(place, writes, how));
        report.other = side_of(other, other_writes);
        report.has_other = 1;
        snprintf(report.text, sizeof report.text, "without a __threadfence before the write that tells of it");
        add_report(report);
        return;
    }
    if (!r->shared && is_passed_on(other)) return;
    Report report = empty_report(race, r, at, size, side_here(place, writes, how));
    report.other = side_of(other, other_writes);
    report.has_other = 1;
    if (how_of(other) == beside) snprintf(report.text, sizeof report.text, "for a store beside the threads: a barrier comes after its wait");
    if (writes && (how == plain || how == loose) && size <= sizeof s.suspects[0].bytes) {
        if (s.suspect_count == max_suspects) return;
        Suspect& one = s.suspects[s.suspect_count++];
        one.area = r;
        one.cell = cell;
        one.before = r->writes[cell];
        one.at = at;
        one.size = size;
        memcpy(one.bytes, (const void*)at, size);
        one.report = report;
        s.read_since_suspect = false;
    } else if (is_new(race, report.here.place, report.other.place)) {
        add_report(report);
    }
}

// Makes cells of the access's size, where they are larger.
static __attribute__((noinline, cold)) void split_cells(Area* r, unsigned size) {
    unsigned shift = r->shift;
    while (size < 1u << shift) --shift;
    const size_t cells = (r->bytes + (1u << r->shift) - 1) >> r->shift, parts = (size_t)1 << (r->shift - shift);
    for (size_t i = cells; i-- > 0;)
        for (size_t part = parts; part-- > 0;) {
            r->writes[i * parts + part] = r->writes[i];
            r->reads[2 * (i * parts + part)] = r->reads[2 * i];
            r->reads[2 * (i * parts + part) + 1] = r->reads[2 * i + 1];
        }
    r->shift = shift;
    forget_windows();
}

static __attribute__((noinline, cold)) bool read_unset(Area* r, uintptr_t at, unsigned size) {
    for (size_t i = (at - r->unset_low) / r->itemsize; i <= (at + size - 1 - r->unset_low) / r->itemsize; ++i)
        if (r->unset[i]) return true;
    return false;
}
static void set_elements(Area* r, uintptr_t at, unsigned size) {
    for (size_t i = (at - r->unset_low) / r->itemsize, last = (at + size - 1 - r->unset_low) / r->itemsize; i <= last; ++i) r->unset[i] = 0;
}

// The variable of the kernel that a place in its library is in, or null.
static Area* variable_at(uintptr_t at) {
    unsigned low = 0, high = s.variable_count;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (s.variables[middle].start <= at) low = middle;
        else high = middle;
    }
    return high && at - s.variables[low].start < s.variables[low].bytes ? &s.variables[low] : 0;
}

// Whether a place is neither in the kernel's library nor in its heap, but on the running thread's stack.
static inline __attribute__((always_inline)) bool is_on_stack(uintptr_t at) {
    const char here = 0;  // above the functions of this runtime, of which the fast ones have no frame
    return at - (uintptr_t)&here < fiber_stack_bytes && at - s.low >= s.high - s.low && !is_in_heap(at);
}

// Mostly the threads' own memory, and the library's where it has no variables but the runtime's.
static inline __attribute__((always_inline)) bool is_unwatched(uintptr_t at) {
    return is_on_stack(at) || (at - s.low < s.high - s.low && !s.variable_count);
}

// Memory that is never watched: as the runtime's own table, which kernels read to call it.
static inline bool is_of_others(uintptr_t at) {
    return at >= 65536 && at - s.arena_low >= s.arena_high - s.arena_low && at - s.low >= s.high - s.low && !is_in_heap(at);
}

static void set_original(uintptr_t at, unsigned size);  // in memory.h

// What an access touches that is in no array of the launch and not in shared memory; null for what is not watched.
static __attribute__((noinline)) Area* area_elsewhere(uintptr_t at, unsigned size, bool writes, u64 place) {
    if (at - s.low < s.high - s.low) return variable_at(at);
    if (is_in_heap(at)) return area_in_heap(at, size, writes, place);
    if (at < 65536) found(out_of_bounds, 0, at, size, writes, place);
    s.wrote_elsewhere |= writes;
    if (writes) set_original(at, size);
    if (at < s.arena_low || at >= s.arena_high || !s.area_count) return 0;
    found(out_of_bounds, s.area_count == 1 ? &s.global[0] : 0, at, size, writes, place);  // of which array, its address does not tell
    return 0;
}

static __attribute__((noinline, cold)) void access_outside(Area* r, uintptr_t at, unsigned size, bool writes, u64 place) {
    while (!r->start) --r;  // shared memory where a variable of another kernel would be: of the one before it
    found(out_of_bounds, r, at, size, writes, place);
}

// Whether what goes on beside reads what a thread has written since it was sent, so before a wait for it; or what another copy
// has.
static __attribute__((noinline)) void meet_beside(Area* r, u64 written, uintptr_t at, unsigned size) {
    if (time_of(written) < s.sent) return;
    if (how_of(written) == beside && s.doing->queue == cukern::counted_copies) return;  // the barrier's own words
    if (!is_new(race, (u64)s.doing->file ^ s.doing->line, written >> place_shift & place_mask)) return;
    Report report = empty_report(race, r, at, size, side_here(0, false, beside));
    report.other = side_of(written, true);
    report.has_other = 1;
    snprintf(report.text, sizeof report.text, "%s", s.doing->name);
    add_report(report);
}

// A store reads shared memory, which others may write when they know that its thread has waited: by then it has read.
static void on_source(const void* source, unsigned bytes) {
    const uintptr_t at = (uintptr_t)source;
    if (!s.on || at - s.shared_arena >= shared_span) return;
    Area* r = &s.shared[(at - s.shared_arena) >> shared_slot_shift];
    r->was_read = true;
    for (size_t cell = (at - r->start) >> r->shift; cell <= (at - r->start + bytes - 1) >> r->shift; ++cell) {
        meet_beside(r, r->writes[cell], r->start + (cell << r->shift), 1u << r->shift);
        u64* const seen = &r->reads[2 * cell];
        seen[!is_over(seen[0], true)] = s.head | beside;
    }
}

static void report_visit(const Area* r, uintptr_t at, unsigned size, Side side, const char* text) {
    if (!is_new(race, side.place, (u64)(uintptr_t)text)) return;
    Report report = empty_report(race, r, at, size, side);
    snprintf(report.text, sizeof report.text, "%s", text);
    add_report(report);
}
static const char may_begin[] = "of a block that may not have begun: a barrier of the cluster comes first";
static const char may_end[] = "of a block that may have ended: a barrier of the cluster comes last";

// An access to the shared memory of another block of the cluster.
static __attribute__((noinline)) void visit(Area* r, uintptr_t at, unsigned size, bool writes, u64 place) {
    if (s.mode == 2) return;
    if (!has_waited(s.me) && !s.has_acquired) report_visit(r, at, size, side_here(place, writes, plain), may_begin);
    if (worker->ended[r->rank]) report_visit(r, at, size, side_here(place, writes, plain), may_end);
    s.cluster.visits[r->rank][s.me] = s.head | place << place_shift | writes;
}

// Whether a thread of a block has learnt that what a thread of another one did is over.
static bool is_seen_in(unsigned rank, unsigned thread, unsigned time) {
    const unsigned threads = s.cluster.block_threads;
    for (unsigned i = rank * threads; i < (rank + 1) * threads; ++i)
        if (time <= time_in(learnt_by[i], thread)) return true;
    return false;
}

// The threads of a block have ended: other blocks' accesses to its memory must be over for one of them.
static void on_block_end(unsigned rank) {
    const unsigned threads = s.cluster.block_threads;
    unsigned waited = 0;
    for (unsigned i = rank * threads; i < (rank + 1) * threads; ++i)
        if (s.cluster.waited[i] > waited) waited = s.cluster.waited[i];
    for (unsigned i = 0; i < s.cluster.blocks * threads; ++i) {
        const u64 visit = s.cluster.visits[rank][i];
        if (time_of(visit) <= s.block_start || came_after(i, time_of(visit), waited) || is_seen_in(rank, i, time_of(visit))) continue;
        Area* const r = &s.shared[rank * shared_slots];
        report_visit(r, r->start, 0, side_of(visit & ~3ull, visit & 1), may_end);
    }
}

static unsigned unset_until(const Area* r) { return r->shared ? s.block_start : s.launch_start; }
static __attribute__((noinline, cold)) bool is_set_in_part(const Area* r, size_t offset, size_t last) {
    for (size_t cell = offset >> r->shift; cell <= last; ++cell)
        if (time_of(r->writes[cell]) > unset_until(r)) return true;
    return false;
}

// A plain write whose place an atomic one takes is kept where the first read is: for a thread for which it is not over, an atomic
// operation is no race with the later one, and is with this.
static __attribute__((noinline, cold)) void cover(Area* r, size_t cell, u64 written) {
    if (time_of(written) <= (r->shared ? s.barrier_time : s.launch_start)) return;
    if (!r->was_read) r->was_read = true, forget_windows();
    u64* const seen = &r->reads[2 * cell];
    if (how_of(seen[0]) != covered && !is_over(seen[0], r->shared)) seen[1] = seen[0];
    seen[0] = written | covered;
}

// What `reads` has of a cell, of which something may not be over before an access.
static __attribute__((noinline)) void meet_earlier(Area* r, size_t cell, uintptr_t at, unsigned size, bool writes, unsigned how, u64 place) {
    const u64 written = r->writes[cell];
    for (unsigned i = 0; i < 2; ++i) {
        const u64 one = r->reads[2 * cell + i];
        if (is_over(one, r->shared)) continue;
        if (how_of(one) == covered) {
            if (how == plain && writes && !is_over(written, r->shared)) continue;  // which is met already
            return meet(r, cell, one & ~7ull, true, at, size, writes, how, place);
        }
        // Who has changed the value since by an atomic operation, and is over, comes after what another such one has read.
        if (how == plain && how_of(one) == atomic && is_atomic(how_of(written)) && time_of(written) > time_of(one)) continue;
        if (is_atomic(how) && how_of(one) == atomic && are_tolerated(how, writes, one, false)) continue;
        if (writes) return meet(r, cell, one, false, at, size, true, how, place);
    }
}

// The cells of one access: whether another thread's access to them is not over, and this one's stamp.
template <unsigned size, bool reads, bool writes, unsigned how>
static __attribute__((noinline)) void touch(Area* r, uintptr_t at, u64 place) {
    const size_t offset = at - r->start;
    if (__builtin_expect(size < 1u << r->shift, 0)) split_cells(r, size);
    const size_t last = (offset + size - 1) >> r->shift;
    const u64 stamp = s.head | (s.mode == 2 ? beside : how) | place << place_shift;
    for (size_t cell = offset >> r->shift; cell <= last; ++cell) {
        const u64 w = r->writes[cell];
        if (reads && r->begins_unset && __builtin_expect(time_of(w) <= unset_until(r), 0)) found_unset(r, at, size, place, !is_set_in_part(r, offset, last));
        if (s.mode == 2) {
            if (reads && how == plain && r->shared && s.doing) meet_beside(r, w, at, size);
            if (writes) r->writes[cell] = w && !time_of(w) ? w | (stamp & ~(place_mask << place_shift)) : stamp;
            continue;
        }
        if (__builtin_expect(!is_over(w, r->shared), 0)) meet(r, cell, w, true, at, size, writes, how, place);
        else if (how == plain && !writes && !r->shared && is_early(w)) note_place(s.early, s.early_count, place);
        if (is_atomic(how) && how != loose && writes) r->atomics = true;
        if (is_atomic(how) && writes && !r->shared) note_set_or_change(r, at, size, how, place, w);
        u64* const seen = &r->reads[2 * cell];
        if (writes) {
            if (r->was_read) {
                if (__builtin_expect(!is_over(seen[0], r->shared) || !is_over(seen[1], r->shared), 0)) meet_earlier(r, cell, at, size, true, how, place);
                if (how == plain && how_of(seen[0]) == covered) seen[0] = 0;
            }
            if (is_atomic(how) && how_of(w) == plain) cover(r, cell, w);
            r->writes[cell] = stamp;
        } else {
            if (!r->was_read) r->was_read = true, forget_windows();
            const bool is_covered = how_of(seen[0]) == covered && time_of(seen[0]) > (r->shared ? s.barrier_time : s.launch_start);
            if (__builtin_expect(is_covered, 0)) meet_earlier(r, cell, at, size, false, how, place);
            u64& last = seen[is_covered || !is_over(seen[0], r->shared)];
            // An atomic read, as mostly before a change, does not take the place of a plain one, which the change may come too late for.
            if (how != atomic || &last == seen || how_of(last) != plain || is_over(last, r->shared)) last = stamp;
        }
    }
}

// Whether an access is over for the running thread, as the fast tests find.
static inline __attribute__((always_inline)) bool is_plainly_over(u64 stamp) {
    const unsigned time = time_of(stamp);
    return time <= s.launch_start || (time > s.block_start && (time <= s.barrier_time || thread_of(stamp) == s.me));
}

// A plain access to a whole cell, all earlier ones to which are over: as most are. It does what `touch` does.
template <unsigned size, bool writes>
static inline __attribute__((always_inline)) bool touch_alone(Area* r, size_t offset, u64 place) {
    if (1u << r->shift != size || offset % size || s.mode == 2) return false;
    u64* const write = &r->writes[offset >> r->shift];
    u64* const seen = &r->reads[2 * (offset >> r->shift)];
    const u64 stamp = s.head | place << place_shift;
    if (!is_plainly_over(*write)) return false;
    if (!writes) {
        if (is_atomic(how_of(*write))) return false;
        if (r->begins_unset && time_of(*write) <= unset_until(r)) return false;
        if (!r->was_read || how_of(*seen) == covered || !is_plainly_over(*seen)) return false;
        *seen = stamp;
        return true;
    }
    if (r->was_read && (how_of(*seen) == covered || !is_plainly_over(seen[0]) || !is_plainly_over(seen[1]))) return false;
    *write = stamp;
    return true;
}

// The array or the shared memory that a place is in; null for others.
static inline Area* area_at(uintptr_t at) {
    if (__builtin_expect(at - s.arena < s.arena_bytes, 1)) return &s.global[(at - s.arena) >> s.slot_shift];
    return at - s.shared_arena < shared_span ? &s.shared[(at - s.shared_arena) >> shared_slot_shift] : 0;
}

// Whether nothing in this launch has accessed the one cell of a write before, as is so of most results.
static inline bool is_first(const Area* r, size_t offset, unsigned size) {
    return 1u << r->shift == size && offset % size == 0 && !r->was_read && s.mode != 2 && time_of(r->writes[offset >> r->shift]) <= s.launch_start;
}

// Any access, with all that it may have to see to.
template <unsigned size, bool reads, bool writes, unsigned how>
static __attribute__((noinline)) void access_with_care(uintptr_t at, uintptr_t pc) {
    if (!s.on) return;
    if (s.old_size) put_fresh_back();
    if (s.suspect_count) settle_before(reads && !writes && how == plain);
    s.last_pc = pc;
    Area* r = area_at(at);
    if (!r && is_unwatched(at)) return;
    const u64 place = (pc - s.base) & place_mask;
    if (!r && !(r = area_elsewhere(at, size, writes, place))) {
        if (!writes && s.cares == 1 && is_of_others(at)) note_free<size, false>(at, size, pc);
        return;
    }
    const size_t offset = at - r->start;
    if (offset >= r->bytes || r->bytes - offset < size) return access_outside(r, at, size, writes, place);
    if (r->walks) end_walks(r);
    if (s.traces) trace(r, at, size, writes, is_atomic(how) ? (unsigned)atomic : how, place);
    if (r->unset) {
        if (reads && read_unset(r, at, size)) found(unset_read, r, at, size, false, place);
        if (writes) set_elements(r, at, size);
    }
    if (r->constant) {
        if (writes) found(constant_write, r, at, size, true, place);
        if (writes || !r->reads) return;
    }
    if (r->shared && r->rank != s.rank) visit(r, at, size, writes, place);
    if ((how == plain || how == loose) && reads && s.late_place == place && place) {
        if (s.gives_last) read_last(r, at, size, place);
        else read_late(r, at, size, how, place);
    }
    touch<size, reads, writes, how>(r, at, place);
}

// What the running thread does on its stack is nobody's business: nor is what else it does there at this place of its code, if it
// comes back there before others do.
template <unsigned size, bool writes>
static __attribute__((noinline)) void note_stack(uintptr_t at, uintptr_t pc) {
    const Worker* const w = worker;
    static unsigned last[window_count];
    s.last_pc = pc;
    if (w->in_block && last[pc % window_count] != s.me) return void(last[pc % window_count] = s.me);
    const uintptr_t low = (uintptr_t)(w->in_block ? w->fiber_stacks[w->current] : w->plain_stack);
    const size_t bytes = w->in_block ? fiber_stack_bytes : plain_stack_bytes;
    if (at - low < bytes) note_free<size, writes>(low, bytes, pc);
}

// Most accesses need little of that.
template <unsigned size, bool reads, bool writes, unsigned how>
static __attribute__((noinline)) void access_usually(uintptr_t at, uintptr_t pc) {
    if (writes && !reads && how == plain && is_written_first<size>(at, pc)) return;
    Area* const r = area_at(at);
    if (!r && s.cares == 1 && is_on_stack(at)) return note_stack<size, writes>(at, pc);
    if (!r && s.cares == 1 && is_unwatched(at)) return note_free<size, writes>(s.low, s.high - s.low, pc);
    if (__builtin_expect(s.cares != 1 || !r, 0)) return access_with_care<size, reads, writes, how>(at, pc);
    const long offset = (long)(at - r->start);
    if (__builtin_expect(offset < 0 || offset + (long)size > (long)r->bytes, 0)) return access_with_care<size, reads, writes, how>(at, pc);
    s.last_pc = pc;
    if (!writes && r->only_read) return note_free<size, false>(r->start, r->bytes, pc);
    if (writes && !reads && r->unset) {
        const size_t from = at - r->unset_low;
        if (size != r->itemsize || from % size || r->constant) return access_with_care<size, reads, writes, how>(at, pc);
        r->unset[from / size] = 0;  // one whole element: the division is by a constant
    } else if (__builtin_expect(r->unset || (writes && r->constant), 0)) {
        return access_with_care<size, reads, writes, how>(at, pc);
    }
    if (r->walks) {
        if (how == plain && reads != writes && walk_on<size, writes>(r, at, pc)) return;
        end_walks(r);
    }
    const u64 place = (pc - s.base) & place_mask;
    if (writes && !reads && how == plain && is_first(r, offset, size)) {
        r->writes[offset >> r->shift] = s.head | place << place_shift;
        if (!r->shared) note_written<size>(r, pc);  // shared memory is written again by each block
    } else if (how != plain || reads == writes || !touch_alone<size, writes>(r, offset, place)) {
        touch<size, reads, writes, how>(r, at, place);
    }
}

// And most of those nothing but a look at what the last one at their place of the code was.
template <unsigned size, bool reads, bool writes, unsigned how>
static inline __attribute__((always_inline)) void access(uintptr_t at, uintptr_t pc) {
    if (!writes && is_free<size, false>(at, pc)) return;
    if (how == plain && reads != writes && is_walked<size, writes>(at, pc)) return;
    if (how == plain && writes && is_free<size, true>(at, pc)) return;
    access_usually<size, reads, writes, how>(at, pc);
}
