// Runs the blocks that an OS thread has taken.
#pragma once
#include "proxy.h"
#include "registers.h"
#include "watch.h"

// Runs a context until the kernel is left for good.
static void run_until_home(Worker* w, Context* context) {
    w->running = true;
    cukern_switch(&w->home, context);
    w->running = false;
    while (__builtin_expect(w->asks, 0)) {
        w->asks = false;
        if (go_on_after_signals(w)) {
            w->running = true;
            cukern_switch(&w->home, &w->interrupted);
            w->running = false;
        } else {
            w->faulted = true;
            w->started = 0;
        }
    }
}

static void set_first_block(Worker* w) {
    const Dim grid = w->launch->grid, cluster = w->job->cluster;
    const unsigned long long x = grid.x / cluster.x, y = grid.y / cluster.y;
    w->corner = {(unsigned)(w->first % x) * cluster.x, (unsigned)(w->first / x % y) * cluster.y,
                 (unsigned)(w->first / x / y) * cluster.z};
    w->block = w->corner;
}

static void set_next_block(Worker* w) {
    const Dim grid = w->launch->grid, cluster = w->job->cluster;
    if ((w->corner.x += cluster.x) >= grid.x) {
        w->corner.x = 0;
        if ((w->corner.y += cluster.y) >= grid.y) w->corner.y = 0, w->corner.z += cluster.z;
    }
    w->block = w->corner;
}

// Runs `count` blocks from `first` on, or so many clusters; false when one of them faulted.
static bool run_fiber_blocks(Worker* w) {
    set_first_block(w);
    if (w->checked) mark_beside_shared(w);
    for (unsigned long long i = 0; i < w->count; ++i) {
        prepare_block(w);
        w->dynamic_shared = dynamic_shared_of(w, 0, w->job->shared);
        w->thread_index = w->kernel->begin_block(w->launch, w->block, w->dynamic_shared);
        *w->thread_index = w->index[0];
        for (unsigned rank = 0; w->checked && rank < w->cluster; ++rank) poison_shared(w, rank);
        begin_cluster(w);
        begin_beside(w);
        w->in_block = true;
        run_until_home(w, &w->fibers[0]);
        w->in_block = false;
        end_beside(w);
        for (unsigned rank = 0; w->checked && !w->faulted && rank < w->cluster; ++rank)
            check_shared(w, rank, block_of(w, rank));
        if (w->cluster > 1 && !w->faulted) end_cluster(w);
        if (w->faulted) return false;
        set_next_block(w);
    }
    return true;
}

static void run_plain(Worker* w) {
    run_until_home(w, &w->plain);
    if (w->faulted) make_context(&w->plain, w->plain_stack, plain_stack_bytes, plain_main);
}

// One at a time, where the block matters to what is looked at.
static bool run_plain_blocks_singly(Worker* w) {
    const unsigned long long first = w->first, count = w->count;
    set_first_block(w);
    mark_beside_shared(w);
    w->count = 1;
    for (; w->first < first + count && !w->faulted; ++w->first) {
        w->thread_index = w->kernel->begin_block(w->launch, w->block, w->dynamic_shared);
        poison_shared(w, 0);
        run_plain(w);
        if (!w->faulted) check_shared(w, 0, w->block);
        set_next_block(w);
    }
    return !w->faulted;
}

static bool run_plain_blocks(Worker* w) {
    w->thread_index = 0;
    if (w->kernel->begin_block) {
        if (w->job->shared || w->job->build->static_count) return run_plain_blocks_singly(w);
        set_first_block(w);
        w->thread_index = w->kernel->begin_block(w->launch, w->block, w->dynamic_shared);
    }
    run_plain(w);
    return !w->faulted;
}
