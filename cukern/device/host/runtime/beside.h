// What goes on beside the threads of a block: asynchronous copies, products and stores. A GPU does them at any time between
// their issue and the wait that covers them; here that time is chosen, so that a missing wait shows.
#pragma once
#include <stdlib.h>

enum Asynchrony { at_once, late, at_random };
static int asynchrony = late;                 // atomic
static unsigned long long asynchrony_seed;  // atomic

struct Pending {
    Operation operation;
    void* kept;     // what it has read
    unsigned sent;  // when, in a checked launch
};

// Of each pending operation: whose it is. Threads look through these alone.
struct Key {
    unsigned queue, owner, group;
};
constexpr unsigned done = 4;  // the queue of what has been done, until the room is needed

// The thread whose groups count: the first of a warp for products, whose lanes all end the same groups.
static unsigned owner_of(cukern::Queue queue, unsigned thread) {
    return queue == cukern::product_groups ? thread & ~31u : thread;
}

static unsigned next_random(Worker* w) {  // xorshift64
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (unsigned)(w->random >> 32);
}

static bool is_random() { return __atomic_load_n(&asynchrony, __ATOMIC_RELAXED) == at_random; }

[[noreturn]] static void fail_beside(Worker* w, const char* what) {
    fault(what, 0, 0, w->block, w->index[w->current]);
    __builtin_unreachable();
}

static void read_here(Worker* w, Pending* one) {
    if (one->kept || !one->operation.bytes) return;
    if (!(one->kept = malloc(one->operation.bytes))) fail_beside(w, "no memory for what is stored asynchronously");
    on_source(one->operation.source, one->operation.bytes);
    memcpy(one->kept, one->operation.source, one->operation.bytes);
    one->operation.source = one->kept;
}

// What an operation does to memory, where addresses mean what they meant to its thread.
static void read_or_do(Worker* w, unsigned i, bool whole) {
    const unsigned here = w->rank;
    w->doing = &w->pending[i].operation;
    w->doing_for = w->keys[i].owner;
    bring_block(w, rank_of(w, w->doing_for));
    on_doing(w->pending[i].operation, w->doing_for, w->pending[i].sent);
    read_here(w, &w->pending[i]);
    // A thread's own copies are its writes, which others see after a barrier; of all else they wait for the end themselves.
    const bool own = w->keys[i].queue == cukern::copy_groups;
    if (!own) on_beside();
    if (whole) w->pending[i].operation.run(&w->pending[i].operation);
    if (!own) on_beside_done();
    on_done(w->current);
    bring_block(w, here);
    w->doing = 0;
}

static void read_now(Worker* w, unsigned i) {
    if (w->pending[i].operation.bytes && !w->pending[i].kept) read_or_do(w, i, false);
}

static void forget(Worker* w, unsigned i) {
    const Whole own(w);
    free(w->pending[i].kept);
    w->pending[i].kept = 0;
    w->keys[i].queue = done;
    if (--w->pending_left == 0) w->pending_count = 0;
}

static void do_now(Worker* w, unsigned i) {
    read_or_do(w, i, true);
    forget(w, i);
}

// Does a counted copy, when no thread can run without: the latest, as copies may overtake each other.
static bool do_counted(Worker* w) {
    for (unsigned i = w->pending_count; i-- > 0;)
        if (w->keys[i].queue == cukern::counted_copies) return do_now(w, i), true;
    return false;
}

// At random, does something now and then. Products of a warp follow each other.
static void do_some(Worker* w) {
    if (!w->pending_count || !is_random() || next_random(w) % 2) return;
    unsigned i = next_random(w) % w->pending_count;
    const Key chosen = w->keys[i];
    if (chosen.queue == done) return;
    if (chosen.queue == cukern::product_groups)
        for (i = 0; w->keys[i].queue != chosen.queue || w->keys[i].owner != chosen.owner;) ++i;
    if (w->pending[i].operation.bytes && !w->pending[i].kept) read_now(w, i);
    else do_now(w, i);
}

// Room for one more; leaves out what has been done.
static void make_room(Worker* w) {
    if (w->pending_count < w->pending_room) return;
    unsigned left = 0;
    for (unsigned i = 0; i < w->pending_count; ++i) {
        if (w->keys[i].queue == done) continue;
        w->keys[left] = w->keys[i];
        if (left != i) w->pending[left] = w->pending[i], w->pending[i].kept = 0;
        ++left;
    }
    w->pending_count = left;
    if (2 * left <= w->pending_room && left) return;
    const unsigned room = w->pending_room ? 2 * w->pending_room : 64;
    Pending* more = (Pending*)realloc(w->pending, room * sizeof(Pending));
    if (more) w->pending = more;
    Key* keys = (Key*)realloc(w->keys, room * sizeof(Key));
    if (keys) w->keys = keys;
    if (!more || !keys) fail_beside(w, "no memory for what goes on beside the threads");
    w->pending_room = room;
}

static unsigned add_pending(Worker* w, const Operation* operation) {
    const Whole own(w);
    make_room(w);
    const cukern::Queue queue = operation->queue;
    const unsigned owner = queue == cukern::product_groups ? 32 * (w->rank * w->block_warps + operation->warp) : w->current;
    const unsigned group = queue == cukern::counted_copies ? 0 : w->groups[queue][owner];
    const unsigned i = w->pending_count++;
    ++w->pending_left;
    w->keys[i] = {queue, owner, group};
    w->pending[i].operation = *operation;
    w->pending[i].kept = 0;
    return i;
}

static void send(const Operation* operation) {
    Worker* w = worker;
    w->beside = true;
    const unsigned i = add_pending(w, operation);
    w->pending[i].sent = on_send();
    if (operation->reads_at_once) read_now(w, i);
    if (__atomic_load_n(&asynchrony, __ATOMIC_RELAXED) == at_once) do_now(w, i);
    else do_some(w);
}

static void commit(cukern::Queue queue) {
    worker->beside = true;
    ++worker->groups[queue][worker->current];
}

static void finish(cukern::Queue queue, unsigned left, bool reads) {
    Worker* w = worker;
    const unsigned owner = owner_of(queue, w->current), ended = w->groups[queue][w->current];
    for (unsigned i = 0; i < w->pending_count; ++i) {
        const Key& key = w->keys[i];
        if (key.owner != owner || key.queue != queue || key.group + left >= ended) continue;
        if (reads) read_now(w, i);
        else do_now(w, i);
    }
}

// What the running thread may not leave behind: products that would write to its variables.
static void leave_products(Worker* w) {
    for (unsigned i = 0; i < w->pending_count; ++i) {
        if (w->keys[i].queue != cukern::product_groups || w->keys[i].owner != (w->current & ~31u)) continue;
        w->left_behind = "it ended while products of a warp were in flight";
        w->left_behind_by = w->current;
        forget(w, i);
    }
}

// When the last thread has ended: does the stores that have read their source, which they may leave behind.
static void do_stores(Worker* w) {
    for (unsigned i = 0; i < w->pending_count; ++i)
        if (w->keys[i].queue == cukern::store_groups && w->pending[i].kept) do_now(w, i);
}

static void begin_beside(Worker* w) {
    w->random = (__atomic_load_n(&asynchrony_seed, __ATOMIC_RELAXED) + 1) * 0x9e3779b97f4a7c15ull ^
                ((unsigned long long)w->block.z << 42 ^ (unsigned long long)w->block.y << 21 ^ w->block.x);
    if (!w->random) w->random = 1;
}

static void forget_given(Worker* w);

// After a block: drops what its threads have left behind, which is a fault but for copies of their own.
static void end_beside(Worker* w) {
    if (!w->beside) return;
    const char* wrong = w->left_behind;
    unsigned of = w->left_behind_by;
    for (unsigned i = 0; i < w->pending_count; ++i) {
        if (w->keys[i].queue != done) of = w->keys[i].owner;
        if (w->keys[i].queue == cukern::counted_copies) wrong = "it ended while copies to its shared memory were in flight";
        if (w->keys[i].queue == cukern::store_groups) wrong = "it ended before its stores had read their shared memory";
        free(w->pending[i].kept);
    }
    w->pending_count = w->pending_left = 0;
    w->left_behind = 0;
    w->beside = false;
    for (unsigned (&ended)[max_places] : w->groups) memset(ended, 0, w->threads * sizeof *ended);
    forget_given(w);
    memset(w->roles, 0, w->cluster * sizeof *w->roles);
    memset(w->cluster_came, 0, w->threads * sizeof *w->cluster_came);
    w->cluster_phase = w->cluster_arrived = 0;
    if (!wrong || w->faulted) return;
    Text text = {w->message, message_bytes};
    const Dim block = block_of(w, rank_of(w, of));
    append(&text, "block (%u, %u, %u): %s", block.x, block.y, block.z, wrong);
    w->faulted = true;
}
