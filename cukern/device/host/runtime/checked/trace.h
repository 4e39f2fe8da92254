// The accesses of some blocks, one by one, for a picture of what a kernel did.
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
    if (block >= trace_blocks) return;
    if (trace_count < trace_room)
        trace_events[trace_count] = {at - r->start, block, r->shared ? 1000 + r->number : r->number, (unsigned)place, (unsigned short)in_block(s.me),
                                     (unsigned short)size, writes, (unsigned char)(s.mode == 2 ? beside : is_atomic(how) ? atomic : how)};
    ++trace_count;
}
