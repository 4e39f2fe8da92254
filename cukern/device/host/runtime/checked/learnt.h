// What threads learn of each other by fences and atomic operations, the barriers in a block's memory among them.
//
// Of its own block, or cluster, a thread knows for each other thread until when what that did is over. Such a list is shared by
// all who know the same, so that threads that wait together learn at the cost of one. Of earlier blocks it knows at which
// places it has seen an atomic value; there are few of these.
#pragma once
#include "state.h"

typedef int Four __attribute__((vector_size(16), may_alias));

struct Learnt {
    u64 id;  // of these times, which have no other one
    unsigned users;
    Four times[];  // of each thread of the cluster
};

// Keys and what belongs to them, until they are forgotten.
struct Slot {
    u64 key;
    unsigned age, value;
};
struct Table {
    Slot* slots;
    unsigned room, count, age;
};
constexpr unsigned none = ~0u;

static void forget(Table& table) { ++table.age, table.count = 0; }
static Slot* slot_for(const Table& table, u64 key) {
    const u64 mixed = key * 0x9e3779b97f4a7c15ull;
    for (unsigned at = (unsigned)(mixed >> 32) & (table.room - 1);; at = (at + 1) & (table.room - 1)) {
        Slot& slot = table.slots[at];
        if (slot.age != table.age || slot.key == key) return &slot;
    }
}
static unsigned find(const Table& table, u64 key) {
    const Slot* slot = table.count ? slot_for(table, key) : 0;
    return slot && slot->age == table.age ? slot->value : none;
}
static void put(Table& table, u64 key, unsigned value) {
    if (2 * table.count >= table.room) {
        const Whole own(worker);
        Table larger = {(Slot*)calloc(table.room ? 2 * table.room : 256, sizeof(Slot)), table.room ? 2 * table.room : 256, table.count, 1};
        if (!larger.slots) return;
        for (unsigned i = 0; i < table.room; ++i)
            if (table.slots[i].age == table.age) *slot_for(larger, table.slots[i].key) = {table.slots[i].key, 1, table.slots[i].value};
        free(table.slots);
        table = larger;
    }
    Slot* slot = slot_for(table, key);
    table.count += slot->age != table.age;
    *slot = {key, table.age, value};
}

// A place with an atomic value: what those who look at it learn, and who has looked.
struct Word {
    unsigned block;          // whose threads `last` and `all` are of, by its number in `blocks`
    unsigned acquired_in;    // the last block that did, or 0
    unsigned first_time;     // of the block's first one
    unsigned last_acquire;   // of all blocks, in `acquires`
    Release last;
    Learnt* all;  // but for `last`
};
static Word* words;
static unsigned word_count, word_room;
static unsigned* touched;  // words with what threads of this block let others see
static unsigned touched_count, touched_room;
static Table word_numbers = {0, 0, 0, 1};
static Table own_entries = {0, 0, 0, 1};  // of a thread of this block and a place: its acquire, its release

enum Entry { acquire_entry, look_entry, known_entry, release_entry };  // the last for each scope
static u64 key_of(unsigned entry, uintptr_t at) { return at ^ (u64)s.me << 48 ^ (u64)entry << 61; }
// A place as all see it, or as those of a block do who have a fence of the block alone.
static u64 key_of_place(uintptr_t at, Scope scope) { return at ^ (scope == own_block ? (u64)(s.rank + 1) << 48 : 0); }

static Learnt* learnt_by[max_places];
static Learnt* learnt_at_fence[2][max_places];  // a fence for all, or of the block
static Learnt* learnt_by_phase[4];              // of the cluster's barrier
static unsigned learnt_phases[4];
static Learnt* learnt_by_ended;
static bool any_learnt;
static u64 last_id;
struct Joined {
    u64 a, b;
    Learnt* result;
};
static Joined joined_before[256];

static unsigned thread_room() { return s.cluster.blocks * s.cluster.block_threads; }  // a multiple of 32
static unsigned time_in(const Learnt* one, unsigned thread) { return one ? ((const unsigned*)one->times)[thread] : 0; }

static Learnt* use(Learnt* one) {
    if (one) ++one->users;
    return one;
}
static void drop(Learnt*& one) {
    const Whole own(worker);
    if (one && !--one->users) free(one);
    one = 0;
}
static void replace(Learnt*& one, Learnt* by) {
    Learnt* old = one;
    one = by;
    drop(old);
}
static Learnt* copy_of(const Learnt* from) {
    const size_t bytes = sizeof(Learnt) + thread_room() * sizeof(unsigned);
    Learnt* made = (Learnt*)malloc(bytes);
    if (!made) return 0;
    if (from) memcpy((void*)made, from, bytes);
    else memset((void*)made, 0, bytes);
    made->users = 1;
    made->id = ++last_id;
    return made;
}

// Whether `b` has later times than `a`, which then gets them.
static bool has_more(const Learnt* a, const Learnt* b) {
    Four more = {};
    for (unsigned i = 0; i < thread_room() / 4; ++i) more |= b->times[i] > a->times[i];
    return more[0] | more[1] | more[2] | more[3];
}
static void lift(Learnt* a, const Learnt* b) {
    for (unsigned i = 0; i < thread_room() / 4; ++i) a->times[i] = b->times[i] > a->times[i] ? b->times[i] : a->times[i];
}
static void lift(Learnt* a, unsigned from, unsigned count, unsigned time) {
    const int t = (int)time;
    const Four times = {t, t, t, t};
    for (unsigned i = from / 4; i < (from + count) / 4; ++i) a->times[i] = times > a->times[i] ? times : a->times[i];
}

static Joined& joined_slot(u64 a, u64 b) { return joined_before[((a * 0x9e3779b97f4a7c15ull) ^ (b * 0xc2b2ae3d27d4eb4full)) >> 56]; }

static Learnt* remember(Joined& slot, u64 a, u64 b, Learnt* result) {
    drop(slot.result);
    slot = {a, b, use(result)};
    return result;
}

// What those know who know both.
static Learnt* joined(Learnt* a, Learnt* b) {
    if (!b || a == b) return use(a);
    if (!a) return use(b);
    Joined& slot = joined_slot(a->id, b->id);
    if (slot.result && slot.a == a->id && slot.b == b->id) return use(slot.result);
    Learnt* result;
    if (!has_more(a, b)) result = use(a);
    else if (!has_more(b, a)) result = use(b);
    else if ((result = copy_of(a))) lift(result, b);
    return remember(slot, a->id, b->id, result);
}

static void add(Learnt*& to, Learnt* more) {
    if (!more || more == to || (to && !has_more(to, more))) return;
    if (!to || to->users > 1) return replace(to, joined(to, more));
    lift(to, more);
    to->id = ++last_id;
}

// And what one let others see by a fence, with what was known to it by barriers.
static void lift(Learnt* a, const Release& release) {
    const unsigned threads = s.cluster.block_threads;
    lift(a, 0, thread_room(), release.cluster_time);
    lift(a, rank_of(release.thread) * threads, threads, release.barrier_time);
    lift(a, release.thread / 32 * 32, 32, release.warp_time);
    unsigned& own = ((unsigned*)a->times)[release.thread];
    if (release.time > own) own = release.time;
}
static Learnt* joined(Learnt* a, const Release& release) {
    const u64 id = a ? a->id : 0;
    Joined& slot = joined_slot(id, release.id);
    if (slot.result && slot.a == id && slot.b == release.id) return use(slot.result);
    Learnt* result = copy_of(a);
    if (result) lift(result, release);
    return remember(slot, id, release.id, result);
}

// Whether threads that the running one has a barrier in common with know all that.
static bool is_known_by_barrier(const Release& release) {
    const unsigned barrier = s.cluster.barrier_time[s.rank];
    return rank_of(release.thread) == s.rank && release.time <= barrier && release.barrier_time <= barrier &&
           release.warp_time <= barrier && release.cluster_time <= barrier;
}

static void learn(Learnt* more) {
    if (more) replace(learnt_by[s.me], joined(learnt_by[s.me], more));
}
// Lets the running thread know what those did who let it be seen at a place.
static void learn(const Word& word) {
    if (word.block != s.block_count) return;
    learn(word.all);
    if (word.last.thread != s.me && !is_known_by_barrier(word.last)) replace(learnt_by[s.me], joined(learnt_by[s.me], word.last));
    any_learnt |= learnt_by[s.me] != 0;
}

// Lets threads know what any of them does.
static void learn_together(unsigned first, unsigned count, unsigned mask) {
    Learnt* all = 0;
    for (unsigned i = 0; i < count; ++i)
        if (mask >> i % 32 & 1) add(all, learnt_by[first + i]);
    for (unsigned i = 0; all && i < count; ++i)
        if (mask >> i % 32 & 1 && learnt_by[first + i] != all) replace(learnt_by[first + i], use(all));
    drop(all);
}

static bool is_same(const Release& a, const Release& b) {
    return a.learnt == b.learnt && a.time == b.time && a.barrier_time == b.barrier_time && a.warp_time == b.warp_time &&
           a.cluster_time == b.cluster_time;
}

static Word* word_at(u64 key, bool makes) {
    unsigned number = find(word_numbers, key);
    if (number == none) {
        if (!makes || !room_for(words, word_count, word_room)) return 0;
        put(word_numbers, key, number = word_count++);
        words[number] = {};
    }
    return &words[number];
}

// What the running thread did before its last fence, and had learnt then, is for those who look at `at` from now on.
static void show(Word* word, const Release& made, Learnt* learnt) {
    if (word->block != s.block_count) {
        word->block = s.block_count;
        if (unsigned* room = room_for(touched, touched_count, touched_room)) *room = (unsigned)(word - words), ++touched_count;
        drop(word->all);
    } else if (word->last.thread != s.me) {
        if (word->all && word->all->users == 1) lift(word->all, word->last), word->all->id = ++last_id;
        else replace(word->all, joined(word->all, word->last));
    }
    word->last = made;
    add(word->all, learnt);
}

static bool is_global(uintptr_t at) { return at - s.shared_arena >= shared_span; }

// Before another block runs. Of the last one only what it let other blocks see is kept.
static void forget_block() {
    for (unsigned i = 0; i < touched_count; ++i) drop(words[touched[i]].all);
    touched_count = 0;
    for (unsigned i = 0; any_learnt && i < max_places; ++i)
        drop(learnt_by[i]), drop(learnt_at_fence[0][i]), drop(learnt_at_fence[1][i]);
    for (unsigned i = 0; i < 4; ++i) drop(learnt_by_phase[i]), learnt_phases[i] = 0;
    drop(learnt_by_ended);
    any_learnt = false;
    forget(own_entries);
    s.unfenced = s.unacquired_count = 0;
    s.has_acquired = false;
    s.shown += s.shown != 0;  // none of it is acquired by threads of another block, though their numbers are the same
    if (!s.block_count) return;
    unsigned left = s.blocks[s.block_count - 1].first_release;
    for (unsigned i = left; i < s.release_count; ++i)
        if (s.releases[i].scope != own_block && is_global(s.releases[i].at)) s.releases[left++] = s.releases[i];
    s.release_count = left;
}

// Before another run, or when times begin anew.
static void forget_all_blocks() {
    forget_block();
    s.block_count = s.release_count = s.acquire_count = s.shown = word_count = 0;
    s.block_releases = false;
    memset(s.acquired_count, 0, sizeof s.acquired_count);
    memset(s.of_block, 0, sizeof s.of_block), memset(s.is_relaxed, 0, sizeof s.is_relaxed);  // where a fault has ended an operation
    forget(word_numbers);
}
