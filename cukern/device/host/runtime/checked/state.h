// What a checked launch knows: the arrays it works on, who touched each piece of them last, and what it has found.
//
// Time counts what orders threads: barriers, warps' syncs, fences. Each access is stamped with the time of its moment, and
// with its thread. One checked launch runs at a time, on one OS thread, its blocks one after another.
#pragma once
#include <stdint.h>
#include <stdlib.h>

typedef unsigned long long u64;

constexpr unsigned max_areas = 64;
constexpr unsigned shared_slots = 256;
constexpr unsigned shared_slot_shift = 20;
constexpr unsigned shared_slot_offset = 1 << 18;  // of a variable in its slot
constexpr unsigned max_reports = 64;

enum Kind {
    out_of_bounds,
    race,
    unset_read,
    constant_write,
    misaligned,
    overflow,
    bad_shift,
    division,
    missing_lane,
    barrier_divergence,
    kernel_fault,
    timeout,
    unreachable_code,
};

// A piece of memory that a kernel may touch, and the accesses to each of its cells.
struct Area {
    uintptr_t start;
    size_t bytes;
    u64* writes;  // a cell's last one
    u64* reads;   // a cell's, two of different threads
    unsigned char* unset;  // of an array that has not been written wholly: which elements are not
    unsigned shift;  // a cell has 1 << shift bytes
    unsigned itemsize;
    bool constant, shared;
    bool was_read;  // in this launch: `reads` has something
    int number;  // of the parameter, or of the shared variable
    char* original;
    u64 written_place;  // of a write to it, if it has unset elements
    uintptr_t unset_low;  // the arena's address of the element that `unset` begins with
};

// A stamp: time in 32 bits, place in the kernel's code in 20, thread in 10, how in 2.
enum How { plain, atomic, beside };
constexpr unsigned place_shift = 12, thread_shift = 2;
constexpr u64 place_mask = 0xfffff;

struct Side {
    u64 place;  // offset in the kernel's library, or 0
    u64 block;
    unsigned thread;
    unsigned writes;
    unsigned how;
};

struct Report {
    unsigned kind;
    unsigned doubtful;  // of unset memory that an instruction of a warp reads: nothing may depend on it
    int region;  // a parameter, or 1000 and a shared variable; -1 for none
    unsigned size;
    long long offset;  // bytes from the region's start
    Side here, other;  // of which the other has no place if there is none
    int has_other;
    int line;
    const char* file;
    char text[1024];
};

// What a fence and an atomic operation after it let others see.
struct Release {
    uintptr_t at;
    unsigned block, thread, time, barrier_time, warp_time, made;
};
struct Acquire {
    uintptr_t at;
    unsigned thread, time;
};
struct BlockRun {
    unsigned start;
    u64 index;
    unsigned first_release;
};

// A write that would be a race if it changes what is there, which is known once it is done.
struct Suspect {
    Area* area;
    size_t cell;
    u64 before;
    uintptr_t at;
    unsigned size;
    unsigned char bytes[16];
    Report report;
};

struct State {
    bool on;
    uintptr_t arena, arena_low, arena_high;
    u64 arena_bytes;  // in use
    unsigned slot_shift;
    uintptr_t shared_arena;
    u64 head;  // the stamp of the running thread's accesses, without their place
    unsigned me, now;
    unsigned launch_start, block_start, barrier_time;
    u64 last_place;  // of the last access, which a fault may have ended
    bool suspicious;
    unsigned char mode;  // 0: a thread's own; 1: of all lanes of a warp; 2: beside the threads
    bool strict;
    bool in_fibers;
    uintptr_t base, low, high;  // of the kernel's library
    Area global[max_areas];
    Area shared[shared_slots];
    unsigned shared_count;
    const char* shared_names[shared_slots];
    unsigned area_count;
    const Operation* doing;  // what goes on beside the threads now, and when it was sent
    unsigned sent;
    const char* together_file;
    int together_line;
    unsigned warp_time[32];
    unsigned known[32][32][32];
    unsigned fence_time[1024], spins[1024];
    uintptr_t acquired_at[1024];
    unsigned acquired_count[1024];
    BlockRun* blocks;
    unsigned block_count, block_room;
    Release* releases;
    unsigned release_count, release_room;
    Acquire* acquires;  // of the running block
    unsigned acquire_count, acquire_room;
    Suspect suspect;
    Report* reports;
    unsigned report_count, all_reports;
    u64 seen[1024];
    // Memory for cells: zero or older than the launch.
    char* pool;
    size_t pool_used;
    u64 random;  // 0 for threads in their order
};

static State s;

static inline void set_head() { s.head = (u64)s.now << 32 | s.me << thread_shift; }
static inline void tick() {
    ++s.now;
    set_head();
}

static inline unsigned time_of(u64 stamp) { return (unsigned)(stamp >> 32); }
static inline unsigned thread_of(u64 stamp) { return (unsigned)(stamp >> thread_shift) & 1023; }
static inline unsigned how_of(u64 stamp) { return (unsigned)stamp & 3; }

// Of whose accesses a stamp of this launch is: an index of `blocks`.
static unsigned block_run_of(unsigned time) {
    unsigned low = 0, high = s.block_count;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (s.blocks[middle].start < time) low = middle;
        else high = middle;
    }
    return low;
}

template <class T>
static T* room_for(T*& list, unsigned count, unsigned& room) {
    if (count < room) return list + count;
    const unsigned wanted = room ? 2 * room : 256;
    T* more = (T*)realloc(list, wanted * sizeof(T));
    if (!more) return 0;
    list = more;
    room = wanted;
    return list + count;
}
