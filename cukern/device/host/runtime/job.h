// A loaded kernel, and one launch of it.
#pragma once
#include <time.h>

#include "block.h"

// A parameter is copied as it is, or read from the ndarray whose address it holds.
struct Param {
    unsigned kind;  // 0 bytes, 1 pointer, 2 view
    unsigned offset, axes;
    unsigned itemsize;  // 0 where the type is the kernel's own
    unsigned written;
    const char* name;
};

// Where a variable in static shared memory is, from the kernel's threadIdx on.
struct StaticShared {
    long long offset, bytes;
};

constexpr int diverted = 2, always_diverted = 4;

// Of a build: the last one, a quick one of the library's own kernel, or one that only checked launches can run.
enum Stage { optimised, quick, for_checks };

// What a compiler has made of a kernel.
struct Build {
    const Kernel* kernel;
    const StaticShared* static_shared;
    unsigned static_count;
    long long shared_low;  // where static shared memory begins, from the kernel's threadIdx on
    size_t shared_span;    // and how far it reaches
};

struct Function {
    const Build* build;  // atomic
    float block_ns;  // of the last launch; 0 when there was none
    float quick_ns;  // a quick build's: the time until it is worth an optimised one; of one for checked launches infinite; else 0
    unsigned param_bytes, param_count;
    int flushes;
    int checked;  // 1: a user's kernel, and not one of the library's; with more, its launches are diverted
    Function* link;
    Dim cluster;  // blocks that run together, along each axis; zeros: all, where so many can
    const Worker* paused;  // the worker that a signal interrupted in it
    uintptr_t base, low, high;  // of the library that it is in
    Param params[];
};

struct Job {
    Function* function;
    const Build* build;
    Launch launch;
    Dim cluster;
    size_t shared;  // bytes of dynamic shared memory
    unsigned long long total;  // clusters; most have one block
    unsigned long long chunk;  // atomic
    unsigned long long next;   // atomic
    unsigned long long start;  // ns
    int stop;                  // atomic: a block faulted
    int timed_out;             // atomic
    int interrupted;           // Python's signal handlers raised
    int helpers;               // under the lock
    unsigned long long fault_block;
    char message[message_bytes];
    Job* link;
};

struct Header {
    Dim grid, block;
    unsigned long long shared;
};

static Dim cluster_of(const Function* function, Dim grid) {
    if (function->cluster.x) return function->cluster;
    return (unsigned long long)grid.x * grid.y * grid.z <= max_cluster ? grid : Dim{1, 1, 1};
}

static unsigned long long now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_nsec;
}
