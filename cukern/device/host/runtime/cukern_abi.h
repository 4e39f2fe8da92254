// What a compiled kernel and the host runtime say to each other.
#pragma once

namespace cukern {

constexpr unsigned abi_version = 2;

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
};

// What a thread waits for. It lies on the thread's own stack; the runtime writes `result`.
struct Wait {
    Collective what;
    int line;
    const char* file;
    unsigned mask;
    int argument, width;
    unsigned long long value, result;
    // Of warp_together: its name for a report, and what is done once all lanes have come, by the value of each.
    const char* name;
    void (*work)(const unsigned long long* values);
};

// What a kernel may ask of the runtime.
struct Runtime {
    // Returns when the collective is complete.
    void (*wait)(Wait*);
    // Returns when other threads have run.
    void (*yield)(Wait*);
    // Records a fault of the running thread and gives up its block.
    void (*fault)(const char* what, const char* file, int line, Dim block, Dim thread);
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

}  // namespace cukern
