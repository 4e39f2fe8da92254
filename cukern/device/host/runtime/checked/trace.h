// What some blocks do, one by one, for pictures: their accesses to memory, and their steps at barriers and of asynchronous copies;
// and the floating-point operations of all blocks.
#pragma once
#include "report.h"

struct Event {
    u64 offset;  // bytes from the start of the array
    u64 block;
    int region;  // as in Report
    unsigned place;
    unsigned short thread, size;
    unsigned char writes, how;
};

static Event* trace_events;
static u64 trace_room, trace_blocks;  // blocks 0 to trace_blocks - 1 are traced
static u64 trace_count;               // also of events that found no room

static __attribute__((noinline, cold)) void trace(const Area* r, uintptr_t at, unsigned size, bool writes, unsigned how, u64 place) {
    const u64 block = current_block();
    if (block >= trace_blocks || s.quiet) return;
    if (s.doing && s.doing->queue == cukern::copy_groups) return;  // traced where it was sent
    if (s.doing && s.doing->sent_at) place = s.doing->sent_at;
    if (trace_count < trace_room)
        trace_events[trace_count] = {at - r->start, block, r->shared ? 1000 + r->number : r->number, (unsigned)place, (unsigned short)in_block(s.me),
                                     (unsigned short)size, writes, (unsigned char)(s.mode == 2 ? beside : is_atomic(how) ? atomic : how)};
    ++trace_count;
}

enum Happening { comes, goes, sends, commits, finishes, arrives, passes };

// What a thread does at a barrier, or for what goes on beside the threads.
struct Step {
    u64 block;
    int region;       // as in Report: where a copy's end is counted, or the barrier; or a kind of barrier in `elsewhere`
    unsigned offset;  // bytes from its start; or the barrier's number
    unsigned place;
    unsigned count;  // of bytes; or the groups that a thread does not wait for
    unsigned short thread;
    unsigned char what, queue;
    unsigned padding;
};
enum Elsewhere { nowhere_known = -1, of_block = -2, of_cluster = -3, of_number = -4 };

static Step* trace_steps;
static u64 step_room, step_count;

static __attribute__((noinline, cold)) void add_step(Happening what, uintptr_t pc, int region, u64 offset, u64 count, unsigned queue) {
    const u64 block = current_block();
    if (block >= trace_blocks) return;
    if (step_count < step_room)
        trace_steps[step_count] = {block, region, (unsigned)offset, (unsigned)((pc - s.base) & place_mask), (unsigned)count,
                                   (unsigned short)in_block(s.me), (unsigned char)what, (unsigned char)queue, 0};
    ++step_count;
}
static inline void step(Happening what, uintptr_t pc, int region, u64 offset = 0, u64 count = 0, unsigned queue = 0) {
    if (__builtin_expect(s.traces, 0)) add_step(what, pc, region, offset, count, queue);
}
// The same at a barrier by its address: of an mbarrier, or of one that has a number.
static void step_at(Happening what, uintptr_t pc, const void* barrier, u64 count = 0, unsigned queue = 0) {
    const uintptr_t at = (uintptr_t)barrier, number = (at - (uintptr_t)worker->roles[worker->rank].barriers) / sizeof(cukern::NumberedBarrier);
    if (number < 16) return step(what, pc, of_number, number, count, queue);
    if (at - s.shared_arena >= shared_span) return step(what, pc, nowhere_known, 0, count, queue);
    const Area& area = s.shared[(at - s.shared_arena) >> shared_slot_shift];
    step(what, pc, 1000 + area.number, at - area.start, count, queue);
}

// Floating-point operations: of float, double and 16 bits; calls of functions such as exp; and of tensor cores, by their factors:
// of 16 bits, tf32, 8 bits and double.
constexpr unsigned operation_kinds = 8, first_tensor_kind = 4;
static u64 operations[operation_kinds];
static u64* operations_at;  // by the place in the code, but for those of tensor cores

static void begin_trace() {
    trace_count = step_count = 0;
    memset(operations, 0, sizeof operations);
    memset(operations_at, 0, (place_mask + 1) * sizeof *operations_at);
}

HOOK void cukern_count(unsigned kind, unsigned count) {
    if (!s.traces) return;
    operations[kind] += count;
    if (kind < first_tensor_kind) operations_at[(HERE - s.base) & place_mask] += count;
}
