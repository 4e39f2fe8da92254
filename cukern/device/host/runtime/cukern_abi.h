// What a compiled kernel and the host runtime say to each other.
#pragma once

namespace cukern {

constexpr unsigned abi_version = 7;

struct Dim {
    unsigned x, y, z;
};

struct Launch {
    const unsigned char* params;  // each parameter at the next multiple of 8 bytes
    Dim grid, block;
};

// The collectives of a block and of a warp. The order is that of the names in runtime.cpp.
enum Collective {
    barrier,
    barrier_count,
    barrier_and,
    barrier_or,
    warp_sync,
    warp_shuffle,
    warp_shuffle_up,
    warp_shuffle_down,
    warp_shuffle_xor,
    warp_ballot,
    warp_all,
    warp_any,
    warp_match_any,
    warp_match_all,
    warp_add,
    warp_min_signed,
    warp_min_unsigned,
    warp_max_signed,
    warp_max_unsigned,
    warp_and,
    warp_or,
    warp_xor,
    warp_together,
    warp_active_mask,
    yield_thread,
    condition,  // of any kind, which `ready` tests
};

// An mbarrier: a phase is complete when as many arrivals as expected and all bytes have come. `unseen` says that nobody has
// waited yet for the last one.
struct MBarrier {
    unsigned long long pending : 20, expected : 20, phase : 2, unseen : 1;
    signed long long bytes : 21;
};
struct BarrierUse {
    const void* barrier;
    const char* file;
    int line;
};

// One of the 16 barriers of a block that have a number. Threads count by whole warps.
struct NumberedBarrier {
    unsigned threads, arrived, generation;
};

// What the warps of a block share out: these barriers, and registers, of which a warp has so many a thread, or 0 for those
// that it began with.
struct Roles {
    NumberedBarrier barriers[16];
    unsigned registers[32];
};

// What a thread waits for. It lies on the thread's own stack; the runtime writes `result`.
struct Wait {
    Collective what;
    int line;
    const char* file;
    unsigned mask;
    int argument, width;
    unsigned long long value, result;
    // Of warp_together and condition: its name for a report.
    const char* name;
    // Of warp_together: what is done once all lanes have come, by the value of each.
    void (*work)(const unsigned long long* values);
    // Of condition: whether it is met, and the barrier that it is about, if any.
    bool (*ready)(const Wait*);
    const MBarrier* barrier;
};

// What goes on beside the threads: their copies to shared memory, products of a warp, and stores of shared memory, each in
// groups for which they wait; and copies whose end a barrier in shared memory counts.
enum Queue {
    copy_groups,
    product_groups,
    store_groups,
    counted_copies,
};

// A piece of it. `bytes` at `source` are read, if any, before it is done with a copy of them as `source`.
struct Operation {
    Queue queue;
    unsigned warp;  // of the block, for a product
    unsigned bytes;
    const void* source;
    void (*run)(const Operation*);
    const char *name, *file;  // who sent it, for a report
    int line;
    unsigned long long words[46];
    bool reads_at_once;
    // For a trace: the bytes that it moves, and the barrier that counts them, if any.
    unsigned moves;
    const MBarrier* counted_at;
    unsigned long long sent_at;  // the place in the code, where it is traced
};

// What a kernel may ask of the runtime.
struct Runtime {
    // Returns when the collective is complete.
    void (*wait)(Wait*);
    // Returns when other threads have run.
    void (*yield)(Wait*);
    // Records a fault of the running thread and gives up its block.
    void (*fault)(const char* what, const char* file, int line, Dim block, Dim thread);
    // Takes an operation of the running thread, or of a warp, which is done at any time until it is waited for.
    void (*send)(const Operation*);
    // Ends a group of the running thread.
    void (*commit)(Queue);
    // Returns when all but the last `left` groups of the running thread are done; or have read what they read.
    void (*finish)(Queue, unsigned left, bool reads);
    Roles* (*roles)();
    // The running thread's block within its cluster.
    unsigned (*cluster_rank)();
    unsigned (*cluster_size)();
    // The running thread comes to its cluster's barrier, as a release or relaxed; and goes on when all of the cluster have come.
    void (*cluster_arrive)(bool releases, const char* file, int line);
    void (*cluster_wait)(const char* file, int line);
    // The address in the block of that rank of what is at an address in the shared memory of the running thread's.
    void* (*map_shared)(const void* own, unsigned rank, const char* file, int line);
    // Whether these bytes are in the shared memory of the running thread's block; without bytes, whether a variable there has the first.
    bool (*is_shared)(const void* first, unsigned long long bytes);
    // Whether this is on the running thread's own stack.
    bool (*is_local)(const void* address);
    // The running thread passes on what it has written to shared memory to what goes on beside.
    void (*fence_to_async)();
    // What goes on beside has written these bytes of shared memory; and is going to read these, which have to be passed on.
    void (*wrote_async)(const void* first, unsigned long long bytes);
    void (*reads_async)(const void* first, unsigned long long bytes, const char* file, int line);
    // What goes on beside is going to count at this mbarrier, whose initialisation has to be passed on.
    void (*counts_async)(const MBarrier* barrier, const char* file, int line);
    // The running thread passes on what it has done to its registers to products.
    void (*fence_registers)();
    // It gives a product these registers, which have to be passed on; `anew`: what is in them does not matter.
    void (*gives_registers)(const void* first, unsigned bytes, bool anew, const char* file, int line);
    // A product has written these of a lane of its warp.
    void (*wrote_registers)(unsigned lane, const void* first, unsigned bytes);
    // Of a checked launch alone. Where a variable in static shared memory is, whose number `slot` keeps.
    void* (*place_shared)(unsigned* slot, unsigned long long bytes, const char* name);
    // The running thread begins (1) or ends (0) work on a barrier's own words, lets those who wait there see what it has
    // done (2), or sees what those have done that came there (3); or arrives there (6), or has waited there (7), besides;
    // or begins (8) or ends (9) what a trace leaves out.
    void (*order)(unsigned what, const void* at);
    // A variable of the running thread begins here, where another one may have been.
    void (*begins_variable)(const void* first, unsigned long long bytes);
};

// What a kernel offers. A kernel without collectives has `run_blocks`, one with them the other two. `begin_block`
// returns this OS thread's threadIdx; beside `run_blocks`, a copy that is kept up to date, and blockIdx behind it.
struct Kernel {
    unsigned abi;
    unsigned param_count;
    const unsigned* param_sizes;
    const Runtime** runtime;
    void (*run_blocks)(const Launch*, unsigned long long first, unsigned long long count, void* shared);
    Dim* (*begin_block)(const Launch*, Dim block, void* shared);
    void (*run_thread)(const Launch*);
};

// What stands in front of memory that a kernel has allocated: this check, or in checked launches what is not this.
struct alignas(16) Allocated {
    unsigned long long check;
};
inline unsigned long long check_of(const Allocated* made) { return 0x6b1f0e8d5a92c437ull ^ (unsigned long long)made; }

// A variable of the kernel's text.
struct Variable {
    void* at;
    unsigned long long bytes;
};

}  // namespace cukern
