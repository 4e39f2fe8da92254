// Whether an earlier access is over for the running thread: by barriers, by what threads learn of each other, by what blocks before
// have let be seen.
#pragma once
#include "learnt.h"

// The last phase of the cluster's barrier that a thread, or before its block's last barrier any of that, has waited for.
static unsigned has_waited(unsigned thread) {
    const unsigned own = s.cluster.waited[thread], of_block = s.cluster.block_waited[rank_of(thread)];
    return own > of_block ? own : of_block;
}

// Whether what a thread had done is shown by a phase of the cluster's barrier, or it ended without coming.
static bool came_after(unsigned thread, unsigned time, unsigned phase) {
    if (!phase) return false;
    const Cluster& c = s.cluster;
    if (c.came[thread] < phase) return c.ended[thread];
    const unsigned slot = phase & 3;
    return time <= c.came_at[thread][slot] || time <= c.block_released[slot][rank_of(thread)] || time <= c.warp_released[slot][thread / 32];
}

static bool covers(const Release& release, unsigned thread, unsigned time) {
    if (release.thread == thread && time <= release.time) return true;
    if (time <= release.cluster_time) return true;
    if (rank_of(release.thread) == rank_of(thread) && time <= release.barrier_time) return true;
    return release.thread / 32 == thread / 32 && time <= release.warp_time;
}

// Whether what a thread has seen of an atomic variable is known to the running one.
static bool is_known(const Acquire& acquire) {
    if (acquire.thread == s.me) return true;
    if (rank_of(acquire.thread) == s.rank && acquire.time <= s.cluster.barrier_time[s.rank]) return true;
    if (came_after(acquire.thread, acquire.time, has_waited(s.me))) return true;
    if (acquire.thread / 32 != s.me / 32) return false;
    return acquire.time <= s.warp_time[s.me / 32] || acquire.time <= s.known[s.me / 32][s.me % 32][acquire.thread % 32];
}

// Whether the running thread knows that one of its block has seen a value, mostly of an earlier block, at a place.
static bool is_acquired(const Word& word, uintptr_t at) {
    if (word.acquired_in != s.block_count) return false;
    if (s.cluster.blocks == 1 && word.first_time <= s.barrier_time) return true;
    if (find(own_entries, key_of(acquire_entry, at)) != none || find(own_entries, key_of(look_entry, at)) != none) return true;
    for (unsigned i = word.last_acquire; i != none && s.acquires[i].block == s.block_count; i = s.acquires[i].next)
        if (is_known(s.acquires[i])) return true;
    return false;
}

// Whether what a thread of an earlier block did by a fence and an atomic operation is known to the running one.
static bool is_ordered_by_atomics(u64 stamp) {
    const unsigned thread = thread_of(stamp), time = time_of(stamp), run = block_run_of(time);
    uintptr_t last = 0;
    for (unsigned i = s.blocks[run].first_release; i < s.blocks[run + 1].first_release; ++i) {
        const Release& release = s.releases[i];
        if (release.scope != everywhere || release.at == last || !covers(release, thread, time)) continue;
        last = release.at;
        const Word* word = word_at(last, false);
        if (word && is_acquired(*word, last)) return true;
    }
    return false;
}

// An acquire of an earlier block, which may have passed on what it has seen of a release; and the one by which that came, or none.
struct Coming {
    unsigned acquire, release, from;
};
static Coming* coming;
static unsigned coming_count, coming_room, searches;

static bool is_noted(unsigned release) { return find(own_entries, key_of(known_entry, release)) != none; }
static void note_known(unsigned release) {
    if (!is_noted(release)) put(own_entries, key_of(known_entry, release), 0);
}

static void add_acquirers(unsigned release, unsigned block, unsigned from) {
    const Word* word = word_at(s.releases[release].at, false);
    for (unsigned i = word && word->acquired_in ? word->last_acquire : none; i != none && s.acquires[i].block > block; i = s.acquires[i].next) {
        if (s.acquires[i].block == s.block_count || s.acquires[i].search == searches) continue;
        s.acquires[i].search = searches;
        if (Coming* room = room_for(coming, coming_count, coming_room)) *room = {i, release, from}, ++coming_count;
    }
}

// Whether blocks that have seen what one let be seen let that be seen themselves, and so on to the running thread.
static bool is_passed_on_from(unsigned first, unsigned block) {
    ++searches;
    coming_count = 0;
    add_acquirers(first, block, none);
    for (unsigned next = 0; next < coming_count; ++next) {
        const Acquire by = s.acquires[coming[next].acquire];
        for (unsigned i = s.blocks[by.block - 1].first_release; i < s.blocks[by.block].first_release; ++i) {
            const Release& release = s.releases[i];
            if (!s.patience || !--s.patience) return false;
            if (release.scope != everywhere || !covers(release, by.thread, by.time)) continue;
            const Word* word = word_at(release.at, false);
            if (is_noted(i) || (word && is_acquired(*word, release.at))) {
                note_known(i);
                for (unsigned at = next; at != none; at = coming[at].from) note_known(coming[at].release);
                return true;
            }
            add_acquirers(i, by.block, next);
        }
    }
    return false;
}

// Whether what a thread of an earlier block did is known to the running one by way of others.
static bool is_passed_on(u64 stamp) {
    if (time_of(stamp) > s.block_start) return false;
    const unsigned thread = thread_of(stamp), time = time_of(stamp), run = block_run_of(time);
    for (unsigned i = s.blocks[run].first_release; i < s.blocks[run + 1].first_release; ++i) {
        const Release& release = s.releases[i];
        if (release.scope == everywhere && covers(release, thread, time) && (is_noted(i) || is_passed_on_from(i, run + 1))) return true;
    }
    return false;
}

// Whether another block stored a value and then, without a fence, made an atomic change elsewhere that is known here: the value
// is taken to have come, and may not have.
static bool is_told_of(u64 stamp, uintptr_t at) {
    if (how_of(stamp) != loose || time_of(stamp) > s.block_start) return false;
    const unsigned thread = thread_of(stamp), time = time_of(stamp), run = block_run_of(time);
    for (unsigned i = s.blocks[run].first_release; i < s.blocks[run + 1].first_release && s.patience; ++i) {
        const Release& release = s.releases[i];
        if (release.scope != nowhere || release.at == at || !covers(release, thread, time)) continue;
        const Word* word = word_at(release.at, false);
        if (!word || word->acquired_in != s.block_count) continue;
        for (unsigned j = word->last_acquire; j != none && s.acquires[j].block == s.block_count && s.patience; j = s.acquires[j].next, --s.patience)
            if (s.acquires[j].looks && is_known(s.acquires[j])) return true;
    }
    return false;
}

// Whether an earlier access is over for the running thread; beyond what the fast tests have found.
static bool is_ordered(u64 stamp, bool shared) {
    const unsigned time = time_of(stamp), thread = thread_of(stamp);
    if (time <= s.launch_start) return true;
    if (time > s.block_start) {
        if (thread == s.me || time <= s.barrier_time) return true;
        if (rank_of(thread) == s.rank && time <= s.cluster.barrier_time[s.rank]) return true;
        if (thread / 32 == s.me / 32) {
            if (time <= s.warp_time[thread / 32]) return true;
            if (time <= s.known[thread / 32][s.me % 32][thread % 32]) return true;
        }
        if (came_after(thread, time, has_waited(s.me))) return true;
        return time <= time_in(learnt_by[s.me], thread);
    }
    return shared || (s.release_count && is_ordered_by_atomics(stamp));
}

static inline bool is_over(u64 stamp, bool shared) {
    const unsigned time = time_of(stamp);
    if (time <= s.launch_start) return true;
    if (time > s.block_start && (time <= s.barrier_time || thread_of(stamp) == s.me)) return true;
    return is_ordered(stamp, shared);
}
