// What a checked launch knows: the arrays it works on, who touched each piece of them last, and what it has found.
//
// Time counts what orders threads: barriers, warps' syncs, fences. Each access is stamped with the time of its moment, and
// with its thread. One checked launch runs at a time, on one OS thread, its blocks one after another.
#pragma once
#include <stdint.h>
#include <stdlib.h>

#define HOOK extern "C" __attribute__((visibility("default")))
#define HERE (uintptr_t)__builtin_return_address(0)

typedef unsigned long long u64;

constexpr unsigned max_areas = 64;
constexpr unsigned shared_slots = 256;  // of each block of a cluster
constexpr unsigned shared_slot_shift = 20;
constexpr unsigned shared_slot_offset = 1 << 18;  // before what lies in a slot, and as many bytes for it
constexpr u64 most_alignment = 4096;  // of a variable, in bytes
constexpr u64 block_span = (u64)shared_slots << shared_slot_shift;  // shared memory of a block of the cluster
constexpr u64 shared_span = block_span * max_cluster;
constexpr unsigned max_reports = 64;
constexpr unsigned max_suspects = 16;
constexpr int heap_region = -(1 << 30);
constexpr int first_entry = -(1 << 29);  // the region of the first array behind a T**, of which others go down
constexpr int first_variable = -2;  // the region of the kernel's first variable, of which others go down
constexpr unsigned max_hasty = 4;
constexpr unsigned late_reads_each = 4;  // of a thread in a block
constexpr unsigned most_unfenced = 256;  // releases of a block
constexpr unsigned most_unacquired = 1024;

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
    use_after_free,
    bad_free,
    leak,
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
    bool only_read;  // constant, and no element is unset
    unsigned char floats;  // bytes of each of its elements, if they are of single or double precision
    bool begins_unset;  // in each block, or when it is allocated
    bool was_read;  // in this launch: `reads` has something
    bool atomics;   // some of its elements are changed by atomic operations
    unsigned char rank;  // of the block of the cluster whose shared memory it is
    int number;  // of the parameter, or of the shared variable, or as a region
    char* original;
    u64 written_place;  // of a write to it, if it has unset elements
    struct Walks* walks;  // in this run, or null: see windows.h
    uintptr_t unset_low;  // the arena's address of the element that `unset` begins with
};

// A stamp: time in 28 bits, place in the kernel's code in 20, thread of the cluster in 13, how in 3.
// an atomic sum; volatile; an exchange; a plain write: see `cover`; a compare and swap whose result the kernel drops
enum How { plain, atomic, beside, sum, loose, swap, covered, unseen };
constexpr unsigned time_shift = 36, place_shift = 16, thread_shift = 3;
constexpr unsigned latest_time = (1u << (64 - time_shift)) - 1;
static_assert(max_places == 1 << (place_shift - thread_shift), "a thread of a cluster in its bits");
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
    unsigned doubtful;  // of memory that is unset in part, or read by an instruction of a warp, or of a missing lane: nothing may depend on it
    int region;  // a parameter, or 1000 and a shared variable, or `first_variable` less another's number; -1 for none
    unsigned size;
    long long offset;  // bytes from the region's start
    u64 bytes;         // of the region
    Side here, other;  // of which the other has no place if there is none
    int has_other;
    int line;
    const char* file;
    char text[1024];
};

// What a fence and an atomic operation after it let others see: all, or those of the block. Without a fence nobody is sure to
// see anything, but may take it that he does.
enum Scope { everywhere, own_block, nowhere };
struct Release {
    uintptr_t at;
    u64 learnt;  // the id of what its thread had learnt of others
    u64 id;      // its own
    unsigned thread, time, barrier_time, warp_time, cluster_time;
    Scope scope;
};
struct Acquire {
    unsigned thread, time;
    unsigned block;   // by its number in `blocks`, from 1 on
    unsigned next;    // the one before at the same place
    unsigned search;  // the last one that came by
    bool looks;       // at the value, where an exchange mostly does not
};
struct Unacquired {
    uintptr_t at;
    unsigned thread;
    bool looks;
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

// What a barrier of the cluster orders: a thread that has waited for a phase comes after what each thread did before it came to
// that, or if it came relaxed, before its last release. Releases are cumulative: one thread's also covers what all threads of its
// block or warp did before they last met ahead of it. A thread may have come to one phase more than all have waited for, so a ring
// of four is enough.
struct Cluster {
    Dim grid, shape;                 // of the launch, and of a cluster, in blocks
    unsigned blocks, block_threads;  // of a cluster, and the threads of a block's warps
    unsigned came[max_places];       // each thread's last phase, from 1 on
    unsigned came_at[max_places][4];  // the time of its last release
    unsigned waited[max_places];
    bool ended[max_places];
    unsigned with_phases;             // of how many threads, at most, some of these are set
    unsigned last_came[4];            // when the last thread came, but for relaxed ones
    // When a block's and a warp's threads had last met before a release of one of them, by phases.
    unsigned block_released[4][max_cluster], warp_released[4][max_places / 32];
    unsigned block_met[max_places], warp_met[max_places];  // when they had last met before a thread's last fence
    unsigned barrier_time[max_cluster];  // of each block's own barriers
    unsigned block_waited[max_cluster];  // what its threads had waited for then
    u64 visits[max_cluster][max_places];  // stamps of each thread's last access to each other block
};

struct Span {
    int region;
    uintptr_t low, high;
};

enum Order : unsigned char { by_number, backwards, from_the_middle };

struct State {
    // What an access has to see to before all else: where nothing but `on` is set, this takes one test.
    union {
        struct {
            bool on;
            bool traces : 1, is_late : 1, in_cluster : 1;
            unsigned char suspect_count;
            unsigned char old_size;  // bytes of the older value that lies at `old_at` until the next access, if not 0
            unsigned char mode;      // 0: a thread's own; 1: of all lanes of a warp; 2: beside the threads
        };
        unsigned cares;   // all but `mode`
        u64 cares_of_own;
    };
    uintptr_t arena, arena_low, arena_high;
    u64 arena_bytes;  // in use
    unsigned slot_shift;
    uintptr_t shared_arena;
    u64 head;  // the stamp of the running thread's accesses, without their place
    unsigned me, now;
    unsigned launch_start, block_start;
    unsigned barrier_time;  // all accesses until then are over for all threads; in clusters of several blocks see `Cluster`
    uintptr_t last_pc;  // of the last access, which a fault may have ended
    bool read_since_suspect, in_range;  // the range of a copy
    unsigned char quiet;  // whether a trace leaves out what goes on, and how often that has begun
    bool strict;
    bool in_fibers;
    Order order;     // of blocks
    bool gave_up;    // one waits for another, in a run in another order than the usual one
    unsigned looks;  // of the running block, in such a run
    uintptr_t base, low, high;  // of the kernel's library
    Area global[max_areas];
    Area shared[max_cluster * shared_slots];
    Area* variables;  // of the kernel's library that are not shared, in the order of their places
    unsigned variable_count, variable_room;
    unsigned shared_count;
    const char* shared_names[shared_slots];
    unsigned area_count;
    const Operation* doing;  // what goes on beside the threads now, and when it was sent
    unsigned sent;
    const char* together_file;
    int together_line;
    unsigned warp_time[max_places / 32];
    unsigned known[max_places / 32][32][32];
    unsigned fence_time[max_places], block_fence_time[max_places], spins[max_places];
    uintptr_t spun_at[max_places];
    bool of_block[max_places];  // within an operation that is atomic for the thread's block alone
    bool is_relaxed[max_places];  // or after which nothing is known of what others did
    Unacquired unacquired[most_unacquired];  // until their threads' next fences
    unsigned unacquired_count;
    bool has_stores;  // to global memory, volatile or atomic
    unsigned unfenced;  // releases of this block
    bool wrote_elsewhere;  // to memory that is neither watched nor a thread's own
    bool meets_atomics;     // something that is not atomic is beside what is, and nothing orders the two
    u64 patience;
    uintptr_t acquired_at[max_places];
    unsigned acquired_count[max_places];  // of the releases then
    unsigned rank;  // of the running thread's block
    Cluster cluster;
    BlockRun* blocks;
    unsigned block_count, block_room;
    Release* releases;
    unsigned release_count, release_room;
    unsigned shown;        // which let others see more than before
    bool block_releases;  // some are for the block alone
    bool has_acquired;    // in the running block
    Acquire* acquires;
    unsigned acquire_count, acquire_room;
    Suspect suspects[max_suspects];
    Report* reports;
    unsigned report_count, all_reports;
    u64 seen[1024];
    // Memory for cells: zero or older than the launch.
    char* pool;
    size_t pool_used;
    Span repeated[2];  // where the threads of a block wrote what others of it, or of other blocks, had written there
    u64 repeated_bytes[2];  // of the longest
    u64 random;  // 0 for threads in their order
    // Plain reads beside atomic writes, by their places; and the runs that show whether such a read matters: see hasty.h.
    u64 hasty[max_hasty];
    unsigned hasty_count;
    // Plain reads of what threads of the block have changed by atomic operations, as others may still do.
    u64 early[max_hasty];
    unsigned early_count;
    bool sets;       // whether the running thread's atomic operation puts a value there, whatever was there: see overwritten.h
    u64 late_place;  // whose reads come late, in such a run
    bool gives_old, was_old;
    bool gives_last;  // or get what the launch leaves there
    unsigned old_reads, tried_again;  // of which the thread then tries an atomic operation there
    uintptr_t old_read_at[max_places][late_reads_each];
    unsigned char late_reads[max_places];
    uintptr_t old_at;
    u64 fresh;
    Report late;
    unsigned first_late;  // the thread whose read was late first, from 1 on, what it read, and put there by an exchange
    uintptr_t first_late_at;
    bool exchanges;
    u64 exchanged;
};

static State s;

// What a run puts in memory that is unset.
static unsigned char fill;

static inline void set_head() { s.head = (u64)s.now << time_shift | s.me << thread_shift; }
static inline void tick() {
    ++s.now;
    set_head();
}

static inline unsigned time_of(u64 stamp) { return (unsigned)(stamp >> time_shift); }
static inline unsigned thread_of(u64 stamp) { return (unsigned)(stamp >> thread_shift) & (max_places - 1); }
static inline unsigned rank_of(unsigned thread) { return s.cluster.blocks > 1 ? thread / s.cluster.block_threads : 0; }
static inline unsigned how_of(u64 stamp) { return (unsigned)stamp & 7; }
static inline bool is_atomic(unsigned how) { return how != plain && how != beside && how != covered; }

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
    const Whole own(worker);
    const unsigned wanted = room ? 2 * room : 256;
    T* more = (T*)realloc(list, wanted * sizeof(T));
    if (!more) return 0;
    list = more;
    room = wanted;
    return list + count;
}
