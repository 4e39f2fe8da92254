// Where a checked launch works: on copies of its arrays, far apart from each other, and on shared memory likewise.
#pragma once
#include "python.h"
#include "state.h"
#include "windows.h"

constexpr u64 tensor_map_mark = 0x70616D726F736E65ull;  // as in tensor_map.py of the host
constexpr size_t kept_bytes = 64 << 20;  // of memory that a launch leaves to the next one

// An array that has not been written wholly: which of its elements are not, a byte for each.
struct Unset {
    char *low, *high;
    u64 itemsize;
    unsigned char* elements;
    unsigned char* saved;
};

// A variable in static shared memory; of a kernel's list the first has their number as its bytes.
struct Variable {
    u64 bytes;
    const char* name;
};

// A variable of the kernel's library that is not shared. Each run returns to its value before the launch.
struct Lasting {
    u64 offset, bytes;
};
static const Lasting* lasting;
static unsigned lasting_count;
static char* lasting_values;

// An array that a parameter of type T** has at a place in its table.
struct Row {
    char* low;
    u64 bytes;
    u64* pointer;
    unsigned itemsize, written;
};
static const Row* entries;
static unsigned entry_count;

// Memory that parameters point to.
struct Piece {
    char *low, *high;
    u64* pointer;
    int region;
    unsigned itemsize;
    bool written;
    unsigned char floats;
    bool apart;  // only read, of memory that another parameter has for writing: it keeps what was there before the launch
};

static u64 arena_room, pool_room;
static size_t launch_pool_used;  // when the launch begins
static Function* launched;
static bool has_begun;  // a run of the launch
static Unset* unset_arrays;
static unsigned unset_count;
static char* originals[max_areas];
// How many blocks run, of arrays too large to be copied: they are taken for zeros, and left alone. 0: all, of copies.
static u64 sampled;

// Shared memory as what goes on beside sees it, at the same places as in its own arena: see proxy.h.
static char* seen_arena;

static char* seen_of(const void* shared) { return seen_arena + ((uintptr_t)shared - s.shared_arena); }

static void unset_shared(const Area& area) {
    void* const start = (void*)area.start;
    const u64 bytes = area.bytes;
    if (!bytes) return;  // as a store of nothing to a page that was never touched may take long
    memset(start, fill, bytes);
    memset(seen_of(start), fill, bytes);
}

// Around each reserved piece, so that an index far out of bounds hits nothing.
constexpr u64 nothing_around = 1ull << 44;

// Far from the libraries, which would else come to lie on both sides: calls of one from another take longer on some processors
// where more than 4 GiB lie between.
static char* reserve(u64& bytes) {
    static char* wanted = (char*)(1ull << 45);
    for (; bytes >= 1ull << 30; bytes /= 2) {
        void* base = mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) continue;
        wanted = (char*)base + bytes + nothing_around;
        return (char*)base;
    }
    return 0;
}

// From what lies before watched memory, in bytes: what follows a thread's place on its stack is taken for that stack.
constexpr u64 stack_distance = 1 << 20;
static_assert(fiber_stack_bytes < stack_distance);

static bool reserve_memory() {
    arena_room = 1ull << 41;
    pool_room = 1ull << 43;
    heap_room = 1ull << 40;
    allocation_room = 1ull << 36;
    s.arena = (uintptr_t)reserve(arena_room);
    // In the middle, so that an index far out of bounds hits nothing on either side.
    s.arena_low = s.arena, s.arena_high = s.arena + arena_room;
    if (s.arena) s.arena += arena_room /= 2;
    s.pool = reserve(pool_room);
    heap = (uintptr_t)reserve(heap_room);
    if (heap) heap += stack_distance, heap_room -= stack_distance;
    allocations = (Allocation*)reserve(allocation_room);
    constexpr u64 slot_bytes = 1ull << shared_slot_shift;
    if (char* const mapped = (char*)map(stack_distance + shared_span + slot_bytes))
        s.shared_arena = ((uintptr_t)mapped + stack_distance + slot_bytes - 1) & -slot_bytes;
    seen_arena = (char*)map(shared_span);
    s.reports = (Report*)malloc(max_reports * sizeof(Report));
    s.now = 1;
    return s.arena_low && heap && allocations && s.pool && s.shared_arena && seen_arena && s.reports;
}

// Cells for so many bytes, as small as a byte: most of that is never touched.
static bool give_cells(Area* area) {
    const size_t cells = (area->bytes + 63) & ~(size_t)63;
    if (s.pool_used + cells * 24 > pool_room) return false;
    area->writes = (u64*)(s.pool + s.pool_used);
    area->reads = area->writes + cells;
    s.pool_used += cells * 24;
    return true;
}

// From where on a variable lies in its slot, so that the low 18 bits of an address, which are all that descriptors of matrices have, are
// those of one variable: static ones lie one after another, the dynamic one ends where the last could.
static u64 shared_place_in_slot(unsigned slot, u64 bytes) {
    const auto rounded = [](u64 to, u64 step) { return (to + step - 1) & -step; };
    if (!slot) return (shared_slot_offset - rounded(bytes, most_alignment)) % shared_slot_offset;
    const Variable* const variables = (const Variable*)launched->build->static_shared;
    u64 end = 0, place = 0;
    for (unsigned i = 1; i <= slot; ++i) {
        const u64 size = i < slot ? variables[i].bytes : bytes, even = size & -size;  // a multiple of its type's alignment
        place = rounded(end, even < 1024 ? 1024 : even < most_alignment ? even : most_alignment);
        end = place + size;
    }
    return end <= shared_slot_offset ? place : 0;
}

static bool set_shared_of(unsigned rank, unsigned slot, u64 bytes) {
    Area* area = &s.shared[rank * shared_slots + slot];
    *area = {};
    area->start = s.shared_arena + rank * block_span + ((u64)slot << shared_slot_shift) + shared_slot_offset + shared_place_in_slot(slot, bytes);
    area->rank = (unsigned char)rank;
    area->bytes = bytes;
    area->shift = 2;
    area->itemsize = 1;
    area->shared = area->begins_unset = true;
    area->number = (int)slot;
    return give_cells(area);
}

// In each block of a cluster.
static bool set_shared(unsigned slot, u64 bytes, const char* name) {
    s.shared_names[slot] = name;
    for (unsigned rank = 0; rank < s.cluster.blocks; ++rank)
        if (!set_shared_of(rank, slot, bytes)) return false;
    return true;
}

// The place of a variable in static shared memory: `slot` is its own in all launches.
static void* place_shared(unsigned* slot, unsigned long long bytes, const char* name) {
    Variable* variables = (Variable*)launched->build->static_shared;
    if (!*slot) {
        if (variables->bytes + 2 > shared_slots || bytes > shared_slot_offset)
            fault("too many variables in static shared memory, or too large ones", 0, 0, worker->block, worker->index[s.me]);
        *slot = (unsigned)++variables->bytes;
        variables[*slot] = {bytes, name};
        set_shared(*slot, bytes, name);
        for (unsigned rank = 0; rank < s.cluster.blocks; ++rank) unset_shared(s.shared[rank * shared_slots + *slot]);
    }
    return (void*)s.shared[worker->rank * shared_slots + *slot].start;
}

static void poison_variables(const Worker*) {
    const u64 count = ((const Variable*)launched->build->static_shared)->bytes;
    for (unsigned rank = 0; rank < s.cluster.blocks; ++rank)
        for (unsigned slot = 0; slot <= count; ++slot) unset_shared(s.shared[rank * shared_slots + slot]);
}

constexpr unsigned are_floats = 1 << 16;
// `itemsizes` are the arrays' own, which a parameter may take as bytes; with `are_floats` where they are of single or double precision.
static void add_piece(Piece* pieces, unsigned& count, const Piece& piece) {
    unsigned at = count++;
    for (; at && pieces[at - 1].low > piece.low; --at) pieces[at] = pieces[at - 1];
    pieces[at] = piece;
}
// The kernels of the library are launched without a look at whether arguments share memory, and one of their threads does on the
// host what many do elsewhere: so what is read of memory that a launch writes is kept apart, and compared in the end.
static void set_apart(Piece* pieces, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        for (unsigned j = 0; j < count && !pieces[i].written; ++j)
            pieces[i].apart |= pieces[j].written && pieces[j].low < pieces[i].high && pieces[i].low < pieces[j].high;
    Piece sorted[max_areas];
    unsigned at = 0;
    for (unsigned apart = 0; apart < 2; ++apart)
        for (unsigned i = 0; i < count; ++i)
            if (pieces[i].apart == (apart != 0)) sorted[at++] = pieces[i];
    memcpy(pieces, sorted, count * sizeof(Piece));
}
// The end of the pieces from `i` on that share memory, up to `high`.
static unsigned end_of_shared(const Piece* pieces, unsigned count, unsigned i, char** high) {
    unsigned j = i;
    for (*high = pieces[i].high; j < count && (j == i || pieces[j].low < *high) && pieces[j].apart == pieces[i].apart; ++j)
        if (pieces[j].high > *high) *high = pieces[j].high;
    return j;
}

static unsigned find_pieces(const Function* function, const unsigned* itemsizes, const unsigned char* objects, unsigned char* params, Piece* pieces) {
    unsigned count = 0;
    for (unsigned i = 0; i < function->param_count && count < max_areas; ++i) {
        const Param* param = &function->params[i];
        u64* slot = (u64*)(params + param->offset);
        Piece piece = {0, 0, slot, (int)i, param->itemsize ? param->itemsize : 1, param->written != 0, 0, false};
        if (param->kind == 0) {
            if (function->build->kernel->param_sizes[i] != 128 || slot[0] != tensor_map_mark) continue;
            piece.pointer = &slot[1];
            piece.itemsize = slot[2] >> 8 & 0xff;
            piece.written = slot[2] >> 32 & 1;
            piece.low = (char*)slot[1];
            piece.high = piece.low + piece.itemsize;
            for (unsigned axis = 0; axis < (slot[2] & 0xff); ++axis) piece.high += (long)(slot[3 + axis] - 1) * (long)slot[8 + axis];
        } else {
            const void* object;
            memcpy(&object, objects + param->offset, sizeof object);
            if (object == none_object) continue;
            Guard guard;
            extent(fields_of(object), itemsizes[i] & ~are_floats, &guard);
            if (itemsizes[i] & are_floats) piece.floats = (unsigned char)itemsizes[i];
            piece.low = guard.low, piece.high = guard.high;
        }
        add_piece(pieces, count, piece);
    }
    for (unsigned i = 0; i < entry_count && count < max_areas; ++i) {
        const Row& one = entries[i];
        const unsigned itemsize = one.itemsize & ~are_floats;
        add_piece(pieces, count, {one.low, one.low + one.bytes, one.pointer, first_entry - (int)i, itemsize, one.written != 0,
                                  (unsigned char)(one.itemsize & are_floats ? itemsize : 0), false});
    }
    set_apart(pieces, count);
    return count;
}

static void find_unset(Area* area, const char* low, const char* high) {
    for (unsigned i = 0; i < unset_count; ++i) {
        const Unset& one = unset_arrays[i];
        if (one.high <= low || high <= one.low) continue;
        if (low < one.low || one.high < high) continue;
        area->unset = one.elements;
        area->itemsize = (unsigned)one.itemsize;
        area->unset_low = area->start - (low - one.low);
    }
}

// Stores by tensor maps go to the arrays themselves, not to their copies.
static void set_original(uintptr_t at, unsigned size) {
    for (unsigned i = 0; i < unset_count; ++i) {
        const Unset& one = unset_arrays[i];
        const uintptr_t low = (uintptr_t)one.low;
        if (at - low >= (uintptr_t)one.high - low) continue;
        for (size_t element = (at - low) / one.itemsize; element <= (at + size - 1 - low) / one.itemsize; ++element) one.elements[element] = 0;
    }
}

// Makes each view of a parameter from its array.
static void resolve_views(const Function* function, unsigned char* params) {
    for (unsigned i = 0; i < function->param_count; ++i) {
        const Param* param = &function->params[i];
        u64* slot = (u64*)(params + param->offset);
        if (param->kind == 0) continue;
        const bool is_none = (const void*)*slot == none_object;
        const ArrayFields* array = is_none ? 0 : fields_of((const void*)*slot);
        const long itemsize = param->itemsize ? param->itemsize : 1;
        slot[0] = array ? (u64)array->data : 0;
        for (unsigned axis = 0; axis < param->axes; ++axis) {
            slot[1 + axis] = array ? (u64)array->shape[axis] : 0;
            slot[1 + param->axes + axis] = array ? (u64)(array->strides[axis] / itemsize) : 0;
        }
    }
}

// Not the same in each slot, so that an index out of bounds by a round number hits no other array.
static u64 place_in_slot(unsigned slot, u64 bytes) {
    const u64 quarter = 1ull << (s.slot_shift - 2), mixed = (slot + 1) * 0x9e3779b97f4a7c15ull >> 32;
    return quarter + mixed % ((2 * quarter - bytes) / 256) * 256;
}

// The kernel's variables are watched where they are.
static bool set_variables() {
    s.variable_count = 0;
    for (unsigned i = 0; i < lasting_count; ++i) {
        Area* area = room_for(s.variables, i, s.variable_room);
        if (!area) return false;
        *area = {};
        area->start = s.base + lasting[i].offset;
        area->bytes = lasting[i].bytes;
        area->shift = area->start % 4 ? 0 : 2;
        area->itemsize = 1;
        area->number = first_variable - (int)i;
        if (!give_cells(area)) return false;
        s.variable_count = i + 1;
    }
    return true;
}

// Gives each array its place in the arena, and lets the parameters point there; false when there is no memory.
static bool begin_launch(Function* function, const unsigned* itemsizes, const unsigned char* objects, unsigned char* params, size_t shared, Unset* arrays, unsigned count) {
    launched = function;
    has_begun = false;
    unset_arrays = arrays;
    unset_count = count;
    s.base = function->base, s.low = function->low, s.high = function->high;
    s.report_count = s.all_reports = s.area_count = s.hasty_count = s.early_count = overwritten_count = 0;
    s.pool_used = 0;
    s.mode = 0;
    fill = unset;
    memset(s.seen, 0, sizeof s.seen);
    forget_windows();
    resolve_views(function, params);
    Piece pieces[max_areas];
    const unsigned found = find_pieces(function, itemsizes, objects, params, pieces);
    u64 largest = 1 << 18;
    char* high;
    for (unsigned i = 0, j; i < found; i = j) {
        j = end_of_shared(pieces, found, i, &high);
        if ((u64)(high - pieces[i].low) > largest) largest = high - pieces[i].low;
    }
    // So far apart, where few arrays are there, that an index out of bounds of 32 bits hits no other one.
    for (s.slot_shift = 37; 1ull << s.slot_shift < 4 * largest;) ++s.slot_shift;
    while ((u64)found << s.slot_shift > arena_room && 1ull << s.slot_shift >= 8 * largest) --s.slot_shift;
    if ((u64)found << s.slot_shift > arena_room) return false;
    for (unsigned i = 0, j; i < found; i = j) {
        Area* area = &s.global[s.area_count];
        *area = {};
        char* const low = pieces[i].low;
        area->constant = true;
        area->number = pieces[i].region;
        area->itemsize = pieces[i].itemsize;
        area->floats = pieces[i].floats;
        j = end_of_shared(pieces, found, i, &high);
        for (unsigned k = i; k < j; ++k)
            if (pieces[k].written && area->constant) area->constant = false, area->number = pieces[k].region;
        area->bytes = high - low;
        area->start = s.arena + ((u64)s.area_count << s.slot_shift) + place_in_slot(s.area_count, area->bytes) + ((uintptr_t)low & 255);
        for (area->shift = 0; area->shift < 2 && area->itemsize % (2u << area->shift) == 0;) ++area->shift;
        if (sampled || area->start & ((1u << area->shift) - 1)) area->shift = 0;
        originals[s.area_count] = low;
        for (unsigned k = i; k < j; ++k) *pieces[k].pointer = *pieces[k].pointer - (u64)low + area->start;
        find_unset(area, low, high);
        area->only_read = area->constant && !area->unset && !pieces[i].apart;
        if ((!area->constant || pieces[i].apart) && !give_cells(area)) return false;
        ++s.area_count;
    }
    s.arena_bytes = (u64)s.area_count << s.slot_shift;
    if (!set_variables() || !begin_heap() || !set_shared(0, shared, "")) return false;
    Variable* variables = (Variable*)function->build->static_shared;
    for (unsigned slot = 1; slot <= variables->bytes; ++slot)
        if (!set_shared(slot, variables[slot].bytes, variables[slot].name)) return false;
    for (unsigned rank = 0; rank < max_cluster; ++rank) {
        Area* const own = s.shared + rank * shared_slots;
        for (unsigned slot = rank < s.cluster.blocks ? (unsigned)variables->bytes + 1 : 0; slot < shared_slots && own[slot].start; ++slot)
            own[slot] = {};
    }
    launch_pool_used = s.pool_used;
    return true;
}

static void keep_lasting(bool again) {
    size_t at = 0;
    for (unsigned i = 0; i < lasting_count; ++i) at += lasting[i].bytes;
    if (!again) {
        char* more = (char*)realloc(lasting_values, at + 1);
        if (!more) return;
        lasting_values = more;
    }
    at = 0;
    for (unsigned i = 0; i < lasting_count; at += lasting[i++].bytes) {
        char* const own = (char*)s.base + lasting[i].offset;
        if (again) memcpy(own, lasting_values + at, lasting[i].bytes);
        else memcpy(lasting_values + at, own, lasting[i].bytes);
    }
}

// What was at a place before the launch, of an array or a variable.
static void copy_original(const Area* r, uintptr_t at, unsigned size, void* to) {
    if (r >= s.global && r < s.global + s.area_count && !sampled) memcpy(to, originals[r - s.global] + (at - r->start), size);
    size_t before = 0;
    for (unsigned i = 0; i < s.variable_count; before += lasting[i++].bytes)
        if (r == &s.variables[i]) memcpy(to, lasting_values + before + (at - r->start), size);
}

// Time begins again: nothing has been accessed yet.
static void forget_times() {
    madvise(s.pool, pool_room, MADV_DONTNEED);
    memset(s.known, 0, sizeof s.known);
    memset(s.warp_time, 0, sizeof s.warp_time);
    memset(s.fence_time, 0, sizeof s.fence_time);
    memset(s.block_fence_time, 0, sizeof s.block_fence_time);
    Cluster& c = s.cluster;
    memset(c.visits, 0, sizeof c.visits);
    memset(c.last_came, 0, sizeof c.last_came);
    memset(c.block_released, 0, sizeof c.block_released);
    memset(c.warp_released, 0, sizeof c.warp_released);
    memset(c.block_met, 0, sizeof c.block_met);
    memset(c.warp_met, 0, sizeof c.warp_met);
    s.now = 1;
}

// Fills the copies, and forgets what an earlier run did.
static void begin_run() {
    const bool again = has_begun;
    has_begun = true;
    if (s.now > latest_time / 4) forget_times();
    for (unsigned i = 0; i < unset_count; ++i) {
        Unset& one = unset_arrays[i];
        const size_t elements = (one.high - one.low) / one.itemsize;
        if (again && one.saved) memcpy(one.elements, one.saved, elements);
        else if (!again && (one.saved = (unsigned char*)malloc(elements))) memcpy(one.saved, one.elements, elements);
    }
    keep_lasting(again);
    keep_heap(again);
    s.pool_used = launch_pool_used;
    for (unsigned i = 0; i < s.area_count && !sampled; ++i)
        if (!again || !s.global[i].constant) memcpy((void*)s.global[i].start, originals[i], s.global[i].bytes);
    bool apart = false;
    for (unsigned i = 0; i < s.area_count; ++i) apart |= s.global[i].constant && s.global[i].reads;
    for (unsigned i = 0; i < s.area_count && !apart; ++i)
        if (!s.global[i].constant) begin_walks(i);
    if (s.traces) begin_trace();
    s.repeated[1] = {};
    s.repeated_bytes[0] = s.repeated_bytes[1] = 0;
    s.launch_start = ++s.now;
    forget_all_blocks();
    s.has_stores = s.wrote_elsewhere = s.meets_atomics = false;
    s.patience = 1 << 26;
    if (s.late_place) memset(s.spins, 0, sizeof s.spins);
    ++s.now;
}

// Where the kernel has written to an array, which it may not have done everywhere.
static u64 find_write(const Area* area) {
    const Stretch* lowest = 0;
    for (unsigned i = 0; area->walks && i < area->walks->count; ++i) {
        const Stretch& one = area->walks->stretches[i];
        if (one.writes && (!lowest || one.first < lowest->first)) lowest = &one;
    }
    if (area->walks) return lowest ? lowest->stamp >> place_shift & place_mask : 0;
    for (size_t cell = 0; cell <= (area->bytes - 1) >> area->shift; ++cell)
        if (time_of(area->writes[cell]) > s.launch_start) return area->writes[cell] >> place_shift & place_mask;
    return 0;
}

static u64 mixed(u64 hash, const void* from, size_t bytes) {  // FNV-1a, by words
    const unsigned char* at = (const unsigned char*)from;
    for (; bytes >= 8; at += 8, bytes -= 8) {
        u64 word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x100000001b3ull;
        hash ^= hash >> 29;
    }
    while (bytes--) hash = (hash ^ *at++) * 0x100000001b3ull;
    return hash;
}

// All that a run has left: its arrays, which elements of them are unset, and the kernel's own variables.
static u64 outcome(bool of_floats) {
    u64 hash = 0xcbf29ce484222325ull;
    for (unsigned i = 0; i < s.area_count; ++i)
        if (!s.global[i].constant && (of_floats || !s.global[i].floats)) hash = mixed(hash, (void*)s.global[i].start, s.global[i].bytes);
    for (unsigned i = 0; i < unset_count; ++i) {
        const Unset& one = unset_arrays[i];
        hash = mixed(hash, one.elements, (one.high - one.low) / one.itemsize);
    }
    for (unsigned i = 0; i < lasting_count; ++i) hash = mixed(hash, (char*)s.base + lasting[i].offset, lasting[i].bytes);
    return hash;
}

// What a run has left, but for the order of elements: of kernels whose threads take places by atomic operations.
struct Bag {
    u64 hash;
    double sums[max_areas][2];  // of arrays of floats, which add up to others by rounding: and of their sizes
};
template <class T>
static void add_up(const Area& area, double* sums) {
    for (const T* at = (const T*)area.start; (uintptr_t)(at + 1) <= area.start + area.bytes; ++at)
        sums[0] += (double)*at, sums[1] += __builtin_fabs((double)*at);
}
static Bag bag() {
    Bag made = {};
    for (unsigned i = 0; i < s.area_count; ++i) {
        const Area& area = s.global[i];
        if (area.constant) continue;
        if (area.floats == 4) add_up<float>(area, made.sums[i]);
        else if (area.floats) add_up<double>(area, made.sums[i]);
        else for (size_t at = 0; at < area.bytes; at += area.itemsize) made.hash += mixed(i, (void*)(area.start + at), area.itemsize);
    }
    return made;
}
static bool are_alike(const Bag& a, const Bag& b) {
    bool alike = a.hash == b.hash;
    for (unsigned i = 0; i < s.area_count; ++i)
        alike &= !(__builtin_fabs(a.sums[i][0] - b.sums[i][0]) > 1e-4 * (a.sums[i][1] + b.sums[i][1]));
    return alike;
}

// All that a run may change, but for memory that it allocates: its arrays, which elements of them are unset, and the kernel's own
// variables.
template <class Visit>
static void visit_changes(Visit visit) {
    for (unsigned i = 0; i < s.area_count; ++i)
        if (!s.global[i].constant) visit((char*)s.global[i].start, s.global[i].bytes);
    for (unsigned i = 0; i < unset_count; ++i) visit((char*)unset_arrays[i].elements, (unset_arrays[i].high - unset_arrays[i].low) / unset_arrays[i].itemsize);
    for (unsigned i = 0; i < lasting_count; ++i) visit((char*)s.base + lasting[i].offset, lasting[i].bytes);
}
// What the last run in the usual order has left there.
static char* left;
static u64 left_repeated_bytes[2];
static bool keep_left() {
    size_t bytes = 1;
    visit_changes([&](const char*, size_t size) { bytes += size; });
    char* at = (char*)realloc(left, bytes);
    if (!at) return false;
    left = at;
    visit_changes([&](const char* from, size_t size) { memcpy(at, from, size), at += size; });
    memcpy(left_repeated_bytes, s.repeated_bytes, sizeof s.repeated_bytes);
    return true;
}
static void put_left_back() {
    const char* at = left;
    visit_changes([&](char* to, size_t size) { memcpy(to, at, size), at += size; });
    memcpy(s.repeated_bytes, left_repeated_bytes, sizeof s.repeated_bytes);
}
static char* left_there(const Area* r) {
    char *at = left, *found = 0;
    visit_changes([&](const char* from, size_t size) { found = (uintptr_t)from == r->start ? at : found, at += size; });
    return found;
}
// What a run has left in arrays that no atomic operation changes.
static u64 plain_outcome() {
    u64 hash = 0xcbf29ce484222325ull;
    for (unsigned i = 0; i < s.area_count; ++i)
        if (!s.global[i].constant && !s.global[i].atomics) hash = mixed(hash, (void*)s.global[i].start, s.global[i].bytes);
    return hash;
}

// Of sums in another order floats differ by rounding. So they are kept, and compared with what another run leaves.
static char* kept_floats;

static bool has_floats(const Area& area) { return area.floats && !area.constant; }

static bool keep_floats() {
    size_t bytes = 0;
    for (unsigned i = 0; i < s.area_count; ++i)
        if (has_floats(s.global[i])) bytes += s.global[i].bytes;
    char* at = (char*)realloc(kept_floats, bytes + 1);
    if (!at) return false;
    kept_floats = at;
    for (unsigned i = 0; i < s.area_count; at += has_floats(s.global[i]) ? s.global[i].bytes : 0, ++i)
        if (has_floats(s.global[i])) memcpy(at, (void*)s.global[i].start, s.global[i].bytes);
    return true;
}

template <class T>
static bool are_near(const char* kept, uintptr_t now, size_t bytes) {
    T a, b, largest = 0;
    for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
        memcpy(&a, kept + at, sizeof(T));
        if (__builtin_isfinite(a) && __builtin_fabs(a) > largest) largest = (T)__builtin_fabs(a);
    }
    for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
        memcpy(&a, kept + at, sizeof(T));
        memcpy(&b, (const void*)(now + at), sizeof(T));
        if (memcmp(&a, &b, sizeof(T)) && !(__builtin_fabs(a - b) <= largest * (T)1e-4) && !(a != a && b != b)) return false;
    }
    return true;
}

static bool are_floats_near() {
    const char* at = kept_floats;
    for (unsigned i = 0; i < s.area_count; at += has_floats(s.global[i]) ? s.global[i].bytes : 0, ++i) {
        const Area& area = s.global[i];
        if (has_floats(area) && !(area.floats == 4 ? are_near<float> : are_near<double>)(at, area.start, area.bytes)) return false;
    }
    return true;
}

static void end_launch() {
    end_heap();
    for (unsigned i = 0; i < entry_count; ++i) *entries[i].pointer = (u64)entries[i].low;
    for (unsigned i = 0; i < s.area_count; ++i)
        if (!s.global[i].constant && s.global[i].unset) s.global[i].written_place = find_write(&s.global[i]);
    for (unsigned i = 0; i < s.area_count && !sampled; ++i)
        if (!s.global[i].constant) memcpy(originals[i], (void*)s.global[i].start, s.global[i].bytes);
    for (unsigned i = 0; i < unset_count; ++i) free(unset_arrays[i].saved);
    if (s.pool_used > 24 * kept_bytes) madvise(s.pool, s.pool_used, MADV_DONTNEED);
    for (unsigned i = 0; i < s.area_count; ++i)
        if (sampled || s.global[i].bytes > kept_bytes / 8) madvise((void*)(s.arena + ((u64)i << s.slot_shift)), 1ull << s.slot_shift, MADV_DONTNEED);
}
