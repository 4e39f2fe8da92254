// What accesses at one place of the code mostly touch, so that the next one there is seen to without looking for its array.
#pragma once
#include "state.h"

constexpr unsigned window_count = 256;  // of places whose addresses end alike the last one has the window

// Where reads may begin of which nothing is to be seen to but that they are there.
struct ReadWindow {
    uintptr_t low;
    size_t span;
};
// Where writes may begin, by cells of their size: of an array none of which has been read in this launch.
struct WriteWindow {
    uintptr_t low;
    size_t count;
    u64* cells;
    unsigned char* unset;  // as in Area, of elements of that size
};
// For each size of an access.
template <unsigned size>
static ReadWindow read_windows[window_count];
template <unsigned size>
static WriteWindow write_windows[window_count];

template <unsigned size>
static void forget_windows_of() {
    memset(read_windows<size>, 0, sizeof read_windows<size>);
    memset(write_windows<size>, 0, sizeof write_windows<size>);
}
static __attribute__((noinline, cold)) void forget_windows() {
    forget_windows_of<1>(), forget_windows_of<2>(), forget_windows_of<4>(), forget_windows_of<8>(), forget_windows_of<16>();
}

template <unsigned size>
static inline __attribute__((always_inline)) bool is_read_freely(uintptr_t at, uintptr_t pc) {
    const ReadWindow window = read_windows<size>[pc % window_count];
    if (__builtin_expect(at - window.low >= window.span || s.cares != 1, 0)) return false;
    s.last_pc = pc;
    return true;
}
template <unsigned size>
static void note_read(const Area* r, uintptr_t pc) {
    read_windows<size>[pc % window_count] = {r->start, r->bytes - (size - 1)};
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
