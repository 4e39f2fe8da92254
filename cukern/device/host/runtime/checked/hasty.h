// A plain read beside an atomic write of another thread, or a volatile read beside a volatile write. Right kernels have such reads, as before a compare and swap, which
// fails if the read was too old; others miss a barrier. The kernel runs twice more, with each read at one place delayed until no
// other thread can run. In the second run the read gets what was there before the delay: whether that changes what the launch
// leaves shows which kind it is. It may be changed by threads that go on to an atomic operation on what they have read, as where
// a full list is not counted any further: these decide by the operation. So do threads that look there again, as at a flag.
#pragma once
#include "report.h"

static void wait_for_others(Wait* wait);  // in block.h
static inline bool is_over(u64 stamp, bool shared);
static void copy_original(const Area* r, uintptr_t at, unsigned size, void* to);  // in memory.h

constexpr unsigned longest_delay = 64;   // of others that spin

static void put_fresh_back() {
    memcpy((void*)s.old_at, &s.fresh, s.old_size);
    s.old_size = 0;
}

static void note_place(u64 (&places)[max_hasty], unsigned& count, u64 place) {
    if (s.late_place) return;
    for (unsigned i = 0; i < count; ++i)
        if (places[i] == place) return;
    if (count < max_hasty) places[count++] = place;
}
static void note_hasty(u64 place) { note_place(s.hasty, s.hasty_count, place); }

// A plain read of a sum, or of what is the least so far, to which the block has added, and to which other blocks still may. It gets
// what the launch leaves there: whether that changes arrays that no atomic operation changes shows whether it came too early. It
// did not if the thread comes back by an atomic operation.
static bool is_early(u64 write) {
    return (how_of(write) == sum || how_of(write) == unseen || how_of(write) == atomic) && time_of(write) > s.block_start && is_over(write, false);
}
static char* left_there(const Area* r);  // in memory.h
static __attribute__((noinline, cold)) void read_last(const Area* r, uintptr_t at, unsigned size, u64 place) {
    const u64 write = r->writes[(at - r->start) >> r->shift];
    const char* const left = left_there(r);
    if (s.mode || s.in_range || size > sizeof s.fresh || !left || !is_early(write)) return;
    const unsigned number = s.late_reads[s.me] < late_reads_each ? s.late_reads[s.me]++ : late_reads_each - 1;
    s.old_read_at[s.me][number] = at;
    if (!memcmp(left + (at - r->start), (const void*)at, size)) return;
    if (!s.was_old) {
        s.late = empty_report(race, r, at, size, side_here(place, false, plain));
        s.late.other = side_of(write, true);
        s.late.has_other = 1;
        snprintf(s.late.text, sizeof s.late.text, "and by other blocks that may not have come to it");
    }
    s.was_old = true;
    if (!s.gives_old) return;
    memcpy(&s.fresh, (const void*)at, size);
    memcpy((void*)at, left + (at - r->start), size);
    s.old_at = at;
    s.old_size = (unsigned char)size;
}

static bool is_last_to_run(const Wait* wait) {
    if (++((Wait*)wait)->value > longest_delay) return true;
    for (unsigned i = 0; i < worker->warp_count; ++i)
        if (worker->warps[i].runnable) return false;
    return true;
}

// In global memory sums count, and exchanges: where values get smaller until none does, an older one does no harm.
static bool counts_for_reads(unsigned how, bool shared) { return how == sum || how == swap || how == unseen || (shared && how == atomic); }
// Of what a volatile read may depend on.
static bool is_looked_for(unsigned how) { return how == loose || how == swap || how == unseen; }
static bool matters_to_reads(unsigned how, u64 write, bool shared) {
    if (is_over(write, shared)) return false;
    if (how == loose) return is_looked_for(how_of(write));
    return counts_for_reads(how_of(write), shared);
}

static __attribute__((noinline, cold)) void read_late(const Area* r, uintptr_t at, unsigned size, unsigned how, u64 place) {
    if (s.mode || s.in_range || size > sizeof s.fresh || s.late_reads[s.me] >= late_reads_each) return;
    const unsigned number = s.late_reads[s.me]++;
    u64 before = 0;
    memcpy(&before, (const void*)at, size);
    Wait wait = {};
    wait.what = cukern::condition;
    wait.ready = is_last_to_run;
    wait.name = wait.file = "";
    wait_for_others(&wait);
    const u64 write = r->writes[(at - r->start) >> r->shift];
    // What an earlier block has written may not have come yet.
    if ((how == loose || how_of(write) == swap) && time_of(write) <= s.block_start) copy_original(r, at, size, &before);
    if (!memcmp(&before, (const void*)at, size) || !matters_to_reads(how, write, r->shared)) return;
    if (!s.was_old) {
        s.late = empty_report(race, r, at, size, side_here(place, false, plain));
        s.late.other = side_of(write, true);
        s.late.has_other = 1;
        s.first_late = s.me + 1;
        s.first_late_at = at;
    }
    s.was_old = true;
    if (!s.gives_old) return;
    memcpy(&s.fresh, (const void*)at, size);
    memcpy((void*)at, &before, size);
    s.old_at = at;
    s.old_size = (unsigned char)size;
    ++s.old_reads;
    if (how_of(write) == swap && !r->shared) ++s.tried_again;  // which counts if an exchange depends on it
    else s.old_read_at[s.me][number] = at;
}

// The running thread comes back to what it may have read late: by an atomic operation, or looking again. It may have looked at
// several places before it looks at the first again.
static void note_return(uintptr_t at) {
    for (uintptr_t& one : s.old_read_at[s.me])
        if (one == at) one = 0, ++s.tried_again;
    if (s.first_late == s.me + 1 && s.first_late_at == at) s.first_late_at = 0;  // what it exchanges is of a newer value
}
// It writes there whatever there is by now.
static void note_store(uintptr_t at) {
    for (uintptr_t& one : s.old_read_at[s.me])
        if (one == at) one = 0;
}
static void note_exchange(uintptr_t at, u64 value) {
    if (s.exchanges || s.first_late != s.me + 1 || s.first_late_at != at) return;
    s.exchanges = true;
    s.exchanged = value;
}
