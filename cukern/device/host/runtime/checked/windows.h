// What accesses at one place of the code mostly touch, so that the next one there is seen to without looking for its array.
#pragma once
#include "state.h"

constexpr unsigned window_count = 256;  // of places whose addresses end alike the last one has the window

// Where accesses may begin of which nothing is to be seen to but that they are there: reads of constant arrays, and all of the
// running thread's stack.
struct FreeWindows {
    uintptr_t low[window_count];
    size_t span[window_count];
};
// Where writes may begin, by cells of their size: of an array none of which has been read in this launch.
struct WriteWindow {
    uintptr_t low;
    size_t count;
    u64* cells;
    unsigned char* unset;  // as in Area, of elements of that size
};
// For each size of an access.
template <unsigned size, bool writes>
static FreeWindows free_windows;
template <unsigned size>
static WriteWindow write_windows[window_count];

template <unsigned size>
static void forget_windows_of() {
    memset(&free_windows<size, false>, 0, sizeof free_windows<size, false>);
    memset(&free_windows<size, true>, 0, sizeof free_windows<size, true>);
    memset(write_windows<size>, 0, sizeof write_windows<size>);
}
static __attribute__((noinline, cold)) void forget_windows() {
    forget_windows_of<1>(), forget_windows_of<2>(), forget_windows_of<4>(), forget_windows_of<8>(), forget_windows_of<16>();
}

template <unsigned size, bool writes>
static inline __attribute__((always_inline)) bool is_free(uintptr_t at, uintptr_t pc) {
    const FreeWindows& windows = free_windows<size, writes>;
    if (__builtin_expect(at - windows.low[pc % window_count] >= windows.span[pc % window_count] || s.cares != 1, 0)) return false;
    s.last_pc = pc;
    return true;
}
template <unsigned size, bool writes>
static void note_free(uintptr_t low, size_t bytes, uintptr_t pc) {
    free_windows<size, writes>.low[pc % window_count] = low;
    free_windows<size, writes>.span[pc % window_count] = bytes - (size - 1);
}

// The cell that an offset begins; far beyond all for an offset within a cell.
template <unsigned size>
static inline size_t cell_of(size_t offset) {
    constexpr unsigned shift = __builtin_ctz(size);
    return offset >> shift | offset << (63 - shift) << 1;
}

// A write that is the first access to its cell in this launch.
template <unsigned size>
static inline __attribute__((always_inline)) bool is_written_first(uintptr_t at, uintptr_t pc) {
    const WriteWindow window = write_windows<size>[pc % window_count];
    const size_t cell = cell_of<size>(at - window.low);
    if (__builtin_expect(cell >= window.count || s.cares != 1 || s.mode == 2, 0)) return false;
    u64& written = window.cells[cell];
    if (time_of(written) > s.launch_start) return false;
    written = s.head + ((pc - s.base) << place_shift);
    if (window.unset) window.unset[cell] = 0;
    s.last_pc = pc;
    return true;
}
template <unsigned size>
static void note_written(const Area* r, uintptr_t pc) {
    if (s.high - s.base > place_mask) return;
    unsigned char* const unset = r->unset ? r->unset + (r->start - r->unset_low) / size : 0;
    write_windows<size>[pc % window_count] = {r->start, r->bytes / size, r->writes, unset};
}

// Most arrays are accessed by threads one after another, each at the place behind the last one's, or by one thread so. Of such an
// array, while it is, no cell is stamped, but it is known where these walks have begun and come to: each is of one place of the
// code. A cell has one thread then: the walk ahead comes to cells that nothing has accessed in this launch, and others follow it,
// never to a cell of another thread. With the first access that is otherwise the cells get their stamps, and the array has no walks
// in this run any more.
struct alignas(128) Walk {
    uintptr_t next;          // the place behind the last
    u64 head;                // of who is to access it; none's, while there has been one access alone
    const uintptr_t* limit;  // before which nothing of another thread's is
    uintptr_t pc;
    u64 turn;                // from one access's head to the next one's
    uintptr_t first;
    u64 first_head;
    uintptr_t own_limit;
    Walk *ahead, *leader;
    struct Walks* of;  // null: none
    unsigned stretch;
    unsigned char size;
    bool writes, begun;  // twice or more often
};
// Where a walk has been, once it is over: in the order of their beginnings, which is that of a cell's accesses.
struct Stretch {
    uintptr_t first, end;
    u64 stamp, turn;
    unsigned char size;
    bool writes;
};
constexpr unsigned most_walks = 4;
constexpr u64 no_head = ~0ull;
struct Walks {
    Area* area;
    Walk* live[most_walks];
    Stretch* stretches;
    unsigned live_count, count, room;
    uintptr_t reach, end;  // behind all stretches; before which an access of any size ends in the array
    size_t bytes;          // of all stretches
};
static Walks walks_of[max_areas];
template <unsigned size, bool writes>
static Walk walks[window_count];

template <unsigned size, bool writes>
static inline __attribute__((always_inline)) bool is_walked(uintptr_t at, uintptr_t pc) {
    Walk& walk = walks<size, writes>[pc % window_count];
    if (__builtin_expect(at != walk.next || s.head != walk.head || pc != walk.pc || at >= *walk.limit || s.cares_of_own != 1, 0)) return false;
    walk.next = at + size;
    walk.head += walk.turn;
    s.last_pc = pc;
    return true;
}

static u64 last_head(const Walk& walk) { return walk.begun ? walk.head - walk.turn : walk.first_head; }

// Whether a walk has just been at a place, or, all of one thread, before; by the running thread.
static bool has_been(const Walk& walk, uintptr_t at, unsigned size) {
    if (walk.size != size || walk.first == walk.next || last_head(walk) != s.head) return false;
    return walk.next == at + size || (walk.begun && walk.turn == 0 && at - walk.first < walk.next - walk.first);
}
static bool is_behind(const Walk* walk, const Walk* other) {
    while (walk && walk != other) walk = walk->ahead;
    return walk != 0;
}

static void close_walk(Walks& all, Walk& walk) {
    for (unsigned i = 0; i < all.live_count; ++i) {
        Walk& other = *all.live[i];
        if (other.ahead == &walk) other.own_limit = other.begun ? walk.next : 0, other.limit = &other.own_limit, other.ahead = 0;
    }
    if (walk.next == walk.first) return;
    Area* const r = all.area;
    if (walk.writes && r->unset) memset(r->unset + (walk.first - r->unset_low) / r->itemsize, 0, (walk.next - walk.first) / r->itemsize);
    const u64 stamp = walk.first_head | ((walk.pc - s.base) & place_mask) << place_shift;
    all.stretches[walk.stretch] = {walk.first, walk.next, stamp, walk.turn, walk.size, walk.writes};
    if (walk.next > all.reach) all.reach = walk.next;
    all.bytes += walk.next - walk.first;
    walk.next = walk.first;
}

static void close_walks(Walks& all) {
    for (unsigned i = 0; i < all.live_count; ++i) close_walk(all, *all.live[i]);
    for (unsigned i = 0; i < all.live_count; ++i) *all.live[i] = {};
    all.live_count = 0;
}

static __attribute__((noinline, cold)) void end_walks(Area* r) {
    Walks& all = *r->walks;
    r->walks = 0;
    close_walks(all);
    for (unsigned i = 0; i < all.count; ++i) {
        const Stretch& one = all.stretches[i];
        if (!one.writes && !r->was_read) r->was_read = true, forget_windows();
        u64 stamp = one.stamp;
        for (uintptr_t at = one.first; at < one.end; at += one.size, stamp += one.turn)
            for (size_t cell = (at - r->start) >> r->shift; cell <= (at - r->start + one.size - 1) >> r->shift; ++cell)
                (one.writes ? r->writes[cell] : r->reads[2 * cell]) = stamp;
    }
    all.count = 0;
}

static void begin_walks(unsigned i) {
    Walks& all = walks_of[i];
    Area* const r = &s.global[i];
    close_walks(all);
    all.area = r;
    all.count = 0;
    all.bytes = 0;
    all.reach = r->start;
    all.end = r->start + (r->bytes & ~(size_t)15);
    r->walks = &all;
}

// Whether an access is a walk's, or begins one.
template <unsigned size, bool writes>
static __attribute__((noinline)) bool walk_on(Area* r, uintptr_t at, uintptr_t pc) {
    Walks& all = *r->walks;
    Walk& walk = walks<size, writes>[pc % window_count];
    if (s.mode || size < 1u << r->shift || (at - r->start) % size || s.high - s.base > place_mask) return false;
    if (walk.of && (walk.of != &all || walk.pc != pc)) return false;
    if (walk.of) {
        const u64 turn = s.head - walk.first_head;
        if (!walk.begun && at == walk.next && at < *walk.limit && (turn == 0 || turn == 1 << thread_shift)) {
            const Walk* const ahead = walk.ahead;
            if (!ahead || (has_been(*ahead, at, size) && ahead->turn == turn)) {
                walk.begun = true;
                walk.turn = turn;
                walk.next = at + size;
                walk.head = s.head + turn;
                return true;
            }
        }
        close_walk(all, walk);
        if (all.count > 64 && all.bytes < (size_t)all.count * 8 * size) return false;  // too short to be worth it
    } else {
        if (all.live_count == most_walks) return false;
        walk = {};
        walk.of = &all, walk.pc = pc, walk.size = size, walk.writes = writes;
        all.live[all.live_count++] = &walk;
    }
    if (all.room == all.count) {
        const Whole own(worker);
        void* const more = realloc(all.stretches, (2 * all.room + 64) * sizeof(Stretch));
        if (!more) return false;
        all.stretches = (Stretch*)more, all.room = 2 * all.room + 64;
    }
    uintptr_t reach = all.reach;
    for (unsigned i = 0; i < all.live_count; ++i)
        if (all.live[i]->next > reach) reach = all.live[i]->next;
    Walk* ahead = 0;
    for (unsigned i = 0; i < all.live_count; ++i) {
        Walk* const other = all.live[i];
        if (other->first == other->next) continue;
        if (at >= reach && other->limit == &all.end) other->own_limit = at, other->limit = &other->own_limit;
        if (has_been(*other, at, size) && (!ahead || other->stretch > ahead->stretch)) ahead = other;
    }
    if (at < reach && !ahead) return false;
    // Which of two reads was the last, or of two writes, is known where one follows the other.
    for (unsigned i = 0; i < all.live_count && ahead; ++i) {
        const Walk& other = *all.live[i];
        if (other.first == other.next || other.writes != writes || other.leader != ahead->leader) continue;
        if (!is_behind(ahead, &other)) return false;
    }
    walk.limit = ahead ? &ahead->next : &all.end;
    walk.ahead = ahead, walk.leader = ahead ? ahead->leader : &walk;
    walk.first = at, walk.next = at + size;
    walk.first_head = s.head, walk.head = no_head;
    walk.turn = 0, walk.begun = false;
    walk.stretch = all.count++;
    all.stretches[walk.stretch] = {};
    return true;
}
