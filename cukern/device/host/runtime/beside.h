// What goes on beside the threads of a block: asynchronous copies, products and stores. A GPU does them at any time between
// their issue and the wait that covers them; here that time is chosen, so that a missing wait shows.
#pragma once
#include <stdlib.h>

enum Asynchrony { at_once, late, at_random };
static int asynchrony = late;                 // atomic
static unsigned long long asynchrony_seed;  // atomic

struct Pending {
    Operation operation;
    unsigned owner, group;
    void* kept;  // what it has read
};

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

static void read_now(Worker* w, Pending* one) {
    if (one->kept || !one->operation.bytes) return;
    if (!(one->kept = malloc(one->operation.bytes))) fail_beside(w, "no memory for what is stored asynchronously");
    memcpy(one->kept, one->operation.source, one->operation.bytes);
    one->operation.source = one->kept;
}

static void do_now(Worker* w, unsigned i) {
    read_now(w, &w->pending[i]);
    const Pending one = w->pending[i];
    memmove(&w->pending[i], &w->pending[i + 1], (--w->pending_count - i) * sizeof(Pending));
    one.operation.run(&one.operation);
    free(one.kept);
}

// Does a counted copy, when no thread can run without: the latest, as copies may overtake each other.
static bool do_counted(Worker* w) {
    for (unsigned i = w->pending_count; i-- > 0;)
        if (w->pending[i].operation.queue == cukern::counted_copies) return do_now(w, i), true;
    return false;
}

// At random, does something now and then. Products of a warp follow each other.
static void do_some(Worker* w) {
    if (!w->pending_count || !is_random() || next_random(w) % 2) return;
    unsigned i = next_random(w) % w->pending_count;
    const Pending chosen = w->pending[i];
    if (chosen.operation.queue == cukern::product_groups)
        for (i = 0; w->pending[i].operation.queue != chosen.operation.queue || w->pending[i].owner != chosen.owner;) ++i;
    if (chosen.operation.bytes && !chosen.kept) read_now(w, &w->pending[i]);
    else do_now(w, i);
}

static void send(const Operation* operation) {
    Worker* w = worker;
    w->beside = true;
    if (w->pending_count == w->pending_room) {
        const unsigned room = w->pending_room ? 2 * w->pending_room : 64;
        Pending* more = (Pending*)realloc(w->pending, room * sizeof(Pending));
        if (!more) fail_beside(w, "no memory for what goes on beside the threads");
        w->pending = more;
        w->pending_room = room;
    }
    const cukern::Queue queue = operation->queue;
    const unsigned owner = queue == cukern::product_groups ? 32 * operation->warp : w->current;
    const unsigned group = queue == cukern::counted_copies ? 0 : w->groups[queue][owner];
    w->pending[w->pending_count++] = {*operation, owner, group, 0};
    if (__atomic_load_n(&asynchrony, __ATOMIC_RELAXED) == at_once) do_now(w, w->pending_count - 1);
    else do_some(w);
}

static void commit(cukern::Queue queue) {
    worker->beside = true;
    ++worker->groups[queue][worker->current];
}

static void finish(cukern::Queue queue, unsigned left, bool reads) {
    Worker* w = worker;
    const unsigned owner = owner_of(queue, w->current), ended = w->groups[queue][w->current];
    for (unsigned i = 0; i < w->pending_count;) {
        Pending* one = &w->pending[i];
        const bool meant = one->operation.queue == queue && one->owner == owner && one->group + left < ended;
        if (!meant) ++i;
        else if (reads) read_now(w, one), ++i;
        else do_now(w, i);
    }
}

static void begin_beside(Worker* w) {
    w->random = (__atomic_load_n(&asynchrony_seed, __ATOMIC_RELAXED) + 1) * 0x9e3779b97f4a7c15ull ^
                ((unsigned long long)w->block.z << 42 ^ (unsigned long long)w->block.y << 21 ^ w->block.x);
    if (!w->random) w->random = 1;
}

// What the threads of a block may leave behind: stores that have read their source, and what nobody needs.
static void end_beside(Worker* w) {
    if (!w->beside) return;
    w->beside = false;
    memset(w->groups, 0, sizeof w->groups);
    memset(w->barriers, 0, sizeof w->barriers);
    const char* wrong = 0;
    for (; w->pending_count; --w->pending_count) {
        Pending* one = &w->pending[w->pending_count - 1];
        const cukern::Queue queue = one->operation.queue;
        if (queue == cukern::counted_copies) wrong = "it ended while copies to its shared memory were in flight";
        if (queue == cukern::store_groups && one->kept) one->operation.run(&one->operation);
        else if (queue == cukern::store_groups) wrong = "it ended before its stores had read their shared memory";
        free(one->kept);
    }
    if (!wrong || w->faulted) return;
    Text text = {w->message, message_bytes};
    append(&text, "block (%u, %u, %u): %s", w->block.x, w->block.y, w->block.z, wrong);
    w->faulted = true;
}
