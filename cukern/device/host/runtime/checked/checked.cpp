// The runtime of checked launches: the same threads, barriers and asynchronous work as in runtime.cpp, with each access
// watched. Compiled once a machine, beside runtime.cpp. C library only.
#define CUKERN_CHECKED
#include <pthread.h>
#include <stdlib.h>

#include "blocks.h"
#include "faults.h"
#include "zones.h"
#include "barriers.h"
#include "undefined.h"
#include "memory.h"
#include "apart.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

static bool is_in_shared(const void* first, unsigned long long bytes) {
    const uintptr_t at = (uintptr_t)first - s.shared_arena;
    if (at - worker->rank * block_span >= block_span) return false;
    const Area& area = s.shared[at >> shared_slot_shift];
    return bytes || (uintptr_t)first - area.start < area.bytes;
}
// What the running thread has written, or knows of by a barrier.
static void pass_on(const Area& area, u64 from, u64 bytes) {
    const char* const own = (const char*)area.start;
    char* const seen = seen_of(own);
    if (!memcmp(seen + from, own + from, bytes)) return;
    if (bytes > 64) return pass_on(area, from, bytes / 2), pass_on(area, from + bytes / 2, bytes - bytes / 2);
    for (u64 i = from; i < from + bytes; ++i)
        if (is_over(area.writes[i >> area.shift], true)) seen[i] = own[i];
}
static void pass_on_shared() {
    note_passed_on();
    const u64 count = ((const Variable*)launched->build->static_shared)->bytes;
    for (unsigned slot = 0; slot <= count; ++slot) {
        const Area& area = s.shared[worker->rank * shared_slots + slot];
        pass_on(area, 0, area.bytes);
    }
}
static void wrote_shared(const void* first, unsigned long long bytes) {
    if ((uintptr_t)first - s.shared_arena < shared_span) memcpy(seen_of(first), first, bytes);
}
static void reads_shared(const void* first, unsigned long long bytes, const char* file, int line) {
    if (!is_in_shared(first, bytes)) fail_here(worker, not_in_shared, file, line);
    if (memcmp(seen_of(first), first, bytes)) fail_here(worker, not_passed_on, file, line);
}
static void counts_beside(const cukern::MBarrier* barrier, const char* file, int line) {
    require_same_init(barrier, seen_of(barrier), file, line);
}
static void* in_block_of_rank(const void* own, unsigned rank, const char* file, int line) {
    if (rank >= worker->cluster) fail_here(worker, "the cluster has no block of that rank", file, line);
    if (worker->ended[rank]) fail_here(worker, "that block of the cluster has ended: a barrier of the cluster comes last", file, line);
    if (!is_in_shared(own, 1)) fail_here(worker, "an address that is not in the block's own shared memory", file, line);
    return (char*)own + ((long long)rank - worker->rank) * (long long)block_span;
}
// What is in it counts as passed on, and what a thread then writes does not.
static void begins_variable(const void* first, unsigned long long bytes) {
    for (unsigned i = 0; i < worker->given_count[s.me] && i < max_given; ++i) {
        Given& one = worker->given[s.me * max_given + i];
        if ((uintptr_t)one.at - (uintptr_t)first < bytes) memcpy(one.kept, one.at, one.bytes);
    }
}
// The same functions, which a trace is told of.
static void traced_wait(cukern::Wait* wait) {
    if (__builtin_expect(!s.traces, 1)) return wait_for_others(wait);  // a call in its place, as switches are fast then
    const bool meets = wait->what <= cukern::barrier_or;
    if (meets) step(comes, HERE, of_block);
    wait_for_others(wait);
    if (meets) step(goes, HERE, of_block);
}
// A thread's own copy is what the thread does there: as one access of its source and one of where it goes.
static void trace_copy(const cukern::Operation* operation, uintptr_t pc) {
    const u64 place = (pc - s.base) & place_mask;
    const Area *from = area_at((uintptr_t)operation->source), *to = area_at(operation->words[0]);
    const unsigned bytes = (unsigned)operation->words[1];
    if (from && bytes) trace(from, (uintptr_t)operation->source, bytes, false, beside, place);
    if (to) trace(to, operation->words[0], operation->moves, true, beside, place);
}
static void traced_send(const cukern::Operation* operation) {
    if (!s.traces) return send(operation);
    const cukern::Queue queue = operation->queue;
    if (queue == cukern::copy_groups) trace_copy(operation, HERE);
    if (operation->counted_at) step_at(sends, HERE, operation->counted_at, operation->moves, queue);
    else step(sends, HERE, nowhere_known, 0, operation->moves, queue);
    cukern::Operation own = *operation;
    own.sent_at = (HERE - s.base) & place_mask;
    send(&own);
}
static void traced_commit(cukern::Queue queue) {
    step(commits, HERE, nowhere_known, 0, 0, queue);
    commit(queue);
}
static void traced_finish(cukern::Queue queue, unsigned left, bool reads) {
    finish(queue, left, reads);
    step(finishes, HERE, nowhere_known, reads, left, queue);
}
static void traced_arrive(bool releases, const char* file, int line) {
    step(arrives, HERE, of_cluster);
    cluster_arrive(releases, file, line);
}
static void traced_pass(const char* file, int line) {
    cluster_wait(file, line);
    step(passes, HERE, of_cluster);
}
static const cukern::Runtime checked_runtime = {
    traced_wait, let_others_run, fault, traced_send, traced_commit, traced_finish, roles, cluster_rank, cluster_size, traced_arrive, traced_pass,
    in_block_of_rank, is_in_shared, is_local, pass_on_shared, wrote_shared, reads_shared, counts_beside, fence_registers,
    gives_registers, wrote_registers, place_shared, order, begins_variable};
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
static pthread_t runner;
static bool runs;
static thread_local const char* last_error __attribute__((tls_model("initial-exec")));

static void free_worker(void*) {}  // workers stay: one for each OS thread that has launched

static Worker* prepare_worker(const Job* job, unsigned threads) {
    Worker* w = worker;
    if (!w) {
        if (!(w = (Worker*)map(sizeof(Worker)))) return 0;
        worker = w;
        pthread_setspecific(worker_key, w);
        add_worker(w);
        prepare_signal_stack(w);
    }
    if (!make_shared(w, job)) return 0;
    const unsigned blocks = blocks_of(job->cluster);
    for (; w->made < threads + (blocks - 1) * ((threads + 31) & ~31u); ++w->made)
        if (!(w->fiber_stacks[w->made] = new_stack(fiber_stack_bytes))) return 0;
    if (!w->plain_stack && !(w->plain_stack = new_stack(plain_stack_bytes))) return 0;
    return w;
}

// The threads of a block one after another: of a kernel in which none waits for another.
static void threads_main() {
    for (;;) {
        Worker* w = worker;
        const Dim shape = w->launch->block;
        const Launch* const launch = w->launch;
        Dim* const index = w->thread_index;
        void (*const run_thread)(const Launch*) = w->kernel->run_thread;
        s.me = w->current = 0;
        set_head();
        for (index->z = 0; index->z < shape.z; ++index->z)
            for (index->y = 0; index->y < shape.y; ++index->y)
                for (unsigned x = 0; x < shape.x; ++x) {
                    index->x = x;
                    run_thread(launch);
                    if (__builtin_expect(s.old_size, 0)) put_fresh_back();
                    s.me = ++w->current;
                    s.head += 1 << thread_shift;
                }
        s.me = --w->current;
        cukern_switch(&w->plain, &w->home);
    }
}

static void begin_block(Worker* w) {
    if (s.now > latest_time / 4 * 3) {  // what blocks before it did is forgotten
        forget_times();
        s.launch_start = ++s.now;
        forget_all_blocks();
        for (unsigned i = 0; i < s.area_count; ++i)
            if (s.global[i].walks) begin_walks(i);
        for (unsigned i = 0; i < allocation_count; ++i) allocations[i].area.begins_unset = false;
    }
    forget_block();
    s.repeated[0] = {};
    s.looks = 0;
    ++s.now;
    s.block_start = s.barrier_time = s.now;
    Cluster& c = s.cluster;
    c.block_threads = w->block_warps * 32;
    forget_paths(0, c.blocks * c.block_threads, ~0u);
    for (unsigned rank = 0; rank < c.blocks; ++rank) c.barrier_time[rank] = s.now, c.block_waited[rank] = 0;
    if (const unsigned threads = c.with_phases) {
        memset(c.came, 0, threads * sizeof *c.came), memset(c.waited, 0, threads * sizeof *c.waited), memset(c.ended, 0, threads);
        c.with_phases = 0;
    }
    ++s.now;
    if (s.late_place) memset(s.late_reads, 0, sizeof s.late_reads), memset(s.old_read_at, 0, sizeof s.old_read_at);
    const Dim grid = w->launch->grid;
    const u64 index = w->corner.x + (u64)grid.x * (w->corner.y + (u64)grid.y * w->corner.z);
    if (BlockRun* room = room_for(s.blocks, s.block_count, s.block_room)) *room = {s.block_start, index, s.release_count}, ++s.block_count;
    on_switch(0);
    poison_variables(w);
}

static void run_block(Worker* w, bool in_fibers) {
    prepare_block(w);
    w->dynamic_shared = shared_place(0);
    w->faulted = false;
    w->message[0] = 0;
    w->thread_index = w->kernel->begin_block(w->launch, w->block, w->dynamic_shared);
    *w->thread_index = w->index[0];
    begin_cluster(w);
    begin_beside(w);
    begin_block(w);
    s.on = true;
    s.in_range = false;
    s.last_pc = s.base;
    if (in_fibers) {
        w->in_block = true;
        run_until_home(w, &w->fibers[0]);
        w->in_block = false;
    } else {
        make_context(&w->plain, w->plain_stack, plain_stack_bytes, threads_main);
        run_until_home(w, &w->plain);
    }
    s.mode = 0;
    beside_depth = s.quiet = 0;
    if (s.old_size) put_fresh_back();
    if (s.suspect_count) settle_suspects();
    s.on = false;
    end_beside(w);
    if (!w->faulted || !w->message[0] || (s.order && s.gave_up)) return;
    const bool divergent = strstr(w->message, "its threads wait for each other") != 0;
    found_text(w->job->timed_out ? timeout : divergent ? barrier_divergence : kernel_fault, w->message, 0, 0, (s.last_pc - s.base) & place_mask);
}

// The first and the last block, and others spread between them, each at random within its stretch.
static u64 sampled_block(u64 i, u64 total) {
    if (!sampled || sampled >= total) return i;
    if (i + 1 >= sampled) return total - 1;
    const u64 stretch = total / sampled, mixed = (i * 0x9e3779b97f4a7c15ull) ^ (i * 0xbf58476d1ce4e5b9ull >> 29);
    return i ? i * stretch + mixed % stretch : 0;
}

static void run_blocks(Worker* w, Job* job, bool in_fibers) {
    unsigned faults = 0;
    const u64 count = sampled && sampled < job->total ? sampled : job->total;
    for (u64 i = 0; i < count && faults < 4 && s.all_reports < 4096; ++i) {
        w->first = s.order == backwards ? count - 1 - i : s.order ? (i + count / 2) % count : sampled_block(i, job->total);
        w->count = 1;
        set_first_block(w);
        run_block(w, in_fibers);
        faults += w->faulted;
        if (job->timed_out || job->interrupted || (s.order && s.gave_up)) break;
    }
}

struct Options {
    unsigned in_fibers, runs, strict, asynchrony;
    unsigned blind;  // no thread sees what its atomic operations find: 1; and none waits for another: 2
    u64 seed;
    Unset* unset;
    unsigned unset_count, lasting_count;
    const Lasting* lasting;
    const unsigned* itemsizes;
    u64 sampled;
    const Row* entries;
    u64 entry_count;
};

static void run_once(Worker* w, Job* job, const Options* options, unsigned run) {
    // The last one in order, whose results stay.
    s.random = run + 1 < options->runs ? (options->seed + run + 1) * 0x9e3779b97f4a7c15ull | 1 : 0;
    __atomic_store_n(&asynchrony, s.random ? at_random : (int)options->asynchrony, __ATOMIC_RELAXED);
    __atomic_store_n(&asynchrony_seed, options->seed + run, __ATOMIC_RELAXED);
    begin_run();
    job->start = now_ns();
    begin_watch(w, job->start);
    run_blocks(w, job, options->in_fibers);
    end_watch(w);
    for (unsigned i = 0; i < s.area_count; ++i)
        if (s.global[i].walks) close_walks(*s.global[i].walks);
    settle_shared_memory();
}

// Blocks run by their numbers, and others wait for earlier ones: so a kernel that takes the block with the highest number for the
// last one gets by. One run begins with the last block. It is dropped where a block waits for one that has not begun.
static void run_backwards(Worker* w, Job* job, const Options* options, unsigned run) {
    const unsigned count = s.report_count, all = s.all_reports, hasty = s.hasty_count;
    s.order = backwards;
    s.gave_up = false;
    run_once(w, job, options, run);
    s.order = by_number;
    if (!s.gave_up) return;
    s.report_count = count, s.all_reports = all, s.hasty_count = hasty;
    memset(s.seen, 0, sizeof s.seen);
    job->timed_out = false;
    run_once(w, job, options, run);
}

static unsigned doubtful_reports() {
    unsigned count = 0;
    for (unsigned i = 0; i < s.report_count; ++i) count += s.reports[i].doubtful;
    return count;
}

template <class Test>
static void drop_reports(Test is_dropped) {
    unsigned left = 0;
    for (unsigned i = 0; i < s.report_count; ++i)
        if (!is_dropped(s.reports[i])) s.reports[left++] = s.reports[i];
    s.all_reports -= s.report_count - left;
    s.report_count = left;
}

// What accesses out of bounds of one array meet in another one follows from that.
static void drop_consequences() {
    bool follows[max_reports] = {};
    for (unsigned i = 0; i < s.report_count; ++i)
        for (unsigned j = 0; j < s.report_count; ++j) {
            const Report &one = s.reports[i], &cause = s.reports[j];
            if (cause.kind != out_of_bounds || !cause.here.place || one.region == cause.region) continue;
            const bool meets = one.kind == race || one.kind == unset_read || one.kind == constant_write;
            follows[i] |= meets && (one.here.place == cause.here.place || one.other.place == cause.here.place);
        }
    drop_reports([&](const Report& one) { return follows[&one - s.reports]; });
}

// A tile's last rows may be of memory that nothing has set, where what they make is dropped, and so is the padding of structs,
// and what a lane may be given by one that is missing, and which lanes are active together: runs twice more, with others there, and
// forgets such reads if the results are the same.
static void settle_doubtful(Worker* w, Job* job, const Options* options) {
    u64 found[2] = {};
    Bag bags[2];
    const unsigned count = s.report_count, all = s.all_reports;
    for (unsigned i = 0; i < 2 && !sampled; ++i) {
        fill = i ? unset : 0x2b;
        parts_lanes = i;
        missing_lanes = i ? 0xdbdbdbdbdbdbdbdbull : 0x5b5b5b5b5b5b5b5bull;  // of either sign, in all types
        run_once(w, job, options, options->runs);
        found[i] = outcome(true);
        bags[i] = bag();
    }
    missing_lanes = 0;
    parts_lanes = false;
    s.report_count = count, s.all_reports = all;  // what follows from those bytes is none
    const bool ordered = !has_paths || options->runs == 1;
    if (ordered ? found[0] == found[1] : are_alike(bags[0], bags[1])) drop_reports([](const Report& one) { return one.doubtful; });
}

// One more run, in which reads at a place come late: see hasty.h. What it leaves, but for arrays of floats.
static u64 run_late(Worker* w, Job* job, const Options* options, unsigned run, u64 place, bool gives_old) {
    s.late_place = place;
    s.is_late = true;
    s.gives_old = gives_old;
    s.was_old = false;
    s.old_reads = s.tried_again = s.first_late = 0;
    s.exchanges = false;
    run_once(w, job, options, run);
    const u64 left = outcome(false) ^ s.report_count;
    s.late_place = 0;
    s.is_late = false;
    s.report_count = s.all_reports = 0;
    return left;
}

// Whether it matters to a launch what the plain reads at a place get, in one of two orders.
static bool is_race(Worker* w, Job* job, const Options* options, u64 place) {
    const unsigned last = options->runs - 1;
    for (unsigned run = last;; run = 0) {
        const u64 usual = run_late(w, job, options, run, place, false);
        const bool exchanges = s.exchanges;
        const u64 exchanged = s.exchanged, plain = plain_outcome();
        if (s.was_old && !job->timed_out && !job->interrupted && keep_floats()) {
            const bool differs = run_late(w, job, options, run, place, true) != usual || !are_floats_near();
            // Of those that exchange only where nobody has yet, any may be the last.
            const bool depends = s.exchanges && (exchanges ? s.exchanged != exchanged : plain_outcome() != plain);
            const Report late = s.late;
            // Else the difference is by a clock.
            if (differs && (s.tried_again < s.old_reads || depends) && run_late(w, job, options, run, place, false) == usual && are_floats_near()) {
                s.late = late;
                return true;
            }
        }
        if (run == 0 || job->timed_out || job->interrupted) return false;
    }
}

// Plain reads of what other blocks still may change: see `read_last`.
static void settle_early(Worker* w, Job* job, const Options* options) {
    Report races[max_hasty];
    unsigned count = 0;
    s.gives_last = true;
    for (unsigned i = 0; i < s.early_count && !job->timed_out && !job->interrupted; ++i) {
        u64 found[2];
        unsigned returns = 0;
        for (unsigned last = 0; last < 2; ++last) {
            run_late(w, job, options, options->runs - 1, s.early[i], last);
            found[last] = plain_outcome();
            returns += last ? 0 : s.tried_again;
        }
        if (s.was_old && !returns && found[0] != found[1]) races[count++] = s.late;
    }
    s.gives_last = false;
    job->timed_out = false;
    for (unsigned i = 0; i < count; ++i) add_report(races[i]);
}

static void settle_hasty(Worker* w, Job* job, const Options* options) {
    Report races[max_hasty];
    unsigned count = 0;
    for (unsigned i = 0; i < s.hasty_count; ++i) {
        if (is_race(w, job, options, s.hasty[i])) races[count++] = s.late;
        job->timed_out = false;
    }
    for (unsigned i = 0; i < count; ++i) add_report(races[i]);
}

// Whether what a run has left of an overwritten sum is what the usual one has.
static bool is_as_left(const Overwritten& one) {
    const char* const before = left_there(one.area);
    if (!before) return true;
    const char* const at = before + (one.at - one.area->start);
    if (one.area->floats && one.size == one.area->floats) return (one.size == 4 ? are_near<float> : are_near<double>)(at, one.at, one.size);
    return !memcmp(at, (const void*)one.at, one.size);
}

// What one block sets and others change: see overwritten.h. It may leave the same in one other order of blocks, and not in two.
static void settle_overwritten(Worker* w, Job* job, const Options* options) {
    bool differs[most_overwritten] = {};
    const unsigned count = overwritten_count, hasty = s.hasty_count, early = s.early_count;
    const auto run = [&](Order order) {
        s.order = order;
        s.gave_up = false;
        run_once(w, job, options, options->runs - 1);
        s.order = by_number;
        return !s.gave_up && !job->timed_out && !job->interrupted;
    };
    bool any = false;
    for (const Order orders[] = {backwards, from_the_middle}; const Order order : orders)
        if (!any && run(order))
            for (unsigned i = 0; i < count; ++i) any |= differs[i] = !is_as_left(overwritten[i]);
    const bool is_by_order = any && run(by_number);  // else it is by a clock
    for (unsigned i = 0; i < count; ++i) differs[i] &= is_by_order && is_as_left(overwritten[i]);
    s.gave_up = job->timed_out = false;
    s.hasty_count = hasty, s.early_count = early, s.report_count = s.all_reports = 0;
    for (unsigned i = 0; i < count; ++i)
        if (differs[i]) add_report(overwritten[i].report);
}

// Where no thread sees what its atomic operations find, and those are of one kind that may come in any order, all threads do the same in
// each order, unless one looks at what others change so, or is told of something by an operation of others after a fence. So the
// usual order comes first, and may do.
static bool run_usually(Worker* w, Job* job, const Options* options) {
    Options usual = *options;
    usual.runs = 1;
    s.in_fibers = usual.in_fibers = options->blind == 1;
    run_once(w, job, &usual, 0);
    s.in_fibers = options->in_fibers;
    return s.report_count || s.hasty_count || s.early_count || s.acquire_count || s.meets_atomics;
}

// In several orders, of which the usual one's results stay.
static void run_in_orders(Worker* w, Job* job, const Options* options) {
    const bool begins_usually = options->blind && options->runs > 1 && !sampled && !s.traces;  // a trace is of the last run
    if (begins_usually && (!run_usually(w, job, options) || s.report_count || job->interrupted)) return;
    const bool keeps = begins_usually && !allocation_count && keep_left();
    for (unsigned run = 0; !job->interrupted && run < options->runs - keeps && s.report_count == doubtful_reports(); ++run)
        (run == 1 && run + 1 < options->runs && job->total > 1 && s.acquire_count && !sampled ? run_backwards : run_once)(w, job, options, run);
    if (keeps && !job->interrupted) put_left_back();
}

// Launches once for each seed, as cukern_launch does; the reports are left for cukern_reports.
EXPORT int cukern_check(Function* function, const unsigned char* packed, const Options* options) {
    if (runs && pthread_equal(runner, pthread_self())) {
        last_error = "a signal's handler cannot launch while a checked launch runs";
        return 1;
    }
    Header header;
    memcpy(&header, packed, sizeof header);
    unsigned char* params = (unsigned char*)__builtin_alloca_with_align(function->param_bytes + 8, 128);
    memcpy(params, packed + sizeof header, function->param_bytes);
    pthread_mutex_lock(&running);
    runs = true;
    runner = pthread_self();
    Job job = {};
    job.function = function;
    job.build = function->build;
    job.launch = {params, header.grid, header.block};
    job.cluster = cluster_of(function, header.grid);
    job.shared = header.shared;
    job.total = (u64)header.grid.x * header.grid.y * header.grid.z / blocks_of(job.cluster);
    s.cluster.blocks = blocks_of(job.cluster);
    s.in_cluster = s.cluster.blocks > 1;
    s.cluster.shape = job.cluster;
    s.cluster.grid = header.grid;
    lasting = options->lasting;
    lasting_count = options->lasting_count;
    sampled = options->sampled;
    entries = options->entries;
    entry_count = (unsigned)options->entry_count;
    int status = 0;
    Worker* w = prepare_worker(&job, header.block.x * header.block.y * header.block.z);
    if (!w || !begin_launch(function, options->itemsizes, packed + sizeof header, params, header.shared, options->unset, options->unset_count)) {
        last_error = "no memory for a checked launch";
        status = 1;
    }
    w->job = &job;
    w->kernel = job.build->kernel;
    w->cluster = s.cluster.blocks;
    w->launch = &job.launch;
    w->checked = false;
    forget_paths(0, max_places, ~0u);  // of the launch before
    has_paths = false;
    s.strict = options->strict;
    s.in_fibers = options->in_fibers;
    if (!status) run_in_orders(w, &job, options);
    s.traces = false;  // of what is run once more
    if (!status && !job.interrupted && doubtful_reports()) settle_doubtful(w, &job, options);
    if (!status && !job.interrupted && !s.report_count && overwritten_count && job.total > 1 && !sampled && keep_left()) {
        settle_overwritten(w, &job, options);
        if (!allocation_count) put_left_back();
        else if (!job.interrupted) run_once(w, &job, options, options->runs - 1);
    }
    const bool early = s.early_count && options->runs > 1 && job.total > 1 && !s.in_cluster;
    if (!status && !job.interrupted && !s.report_count && (s.hasty_count || early) && !sampled && keep_left()) {
        settle_hasty(w, &job, options);
        if (!job.interrupted && !s.report_count && early) settle_early(w, &job, options);
        if (!allocation_count) put_left_back();
        else if (!job.interrupted) run_once(w, &job, options, options->runs - 1);
    }
    if (job.interrupted) status = 2;
    drop_consequences();
    end_launch();
    runs = false;
    pthread_mutex_unlock(&running);
    if (function->flushes) fflush(stdout);
    return status;
}

EXPORT const Report* cukern_reports(unsigned* count, unsigned* all) {
    *count = s.report_count;
    *all = s.all_reports;
    return s.reports;
}
// From now on launches leave what their first blocks did in `events`; nothing is traced where there is no room.
EXPORT void cukern_trace(Event* events, u64 room, u64 blocks, Step* steps, u64 room_of_steps, u64* operations_by_place) {
    trace_events = events;
    trace_room = room;
    s.traces = room != 0;
    trace_blocks = blocks;
    trace_steps = steps;
    step_room = room_of_steps;
    operations_at = operations_by_place;
}
EXPORT u64 cukern_traced(u64* steps, u64* counted) {
    *steps = step_count;
    memcpy(counted, operations, sizeof operations);
    return trace_count;
}
EXPORT const char* cukern_shared_name(unsigned number) { return number < shared_slots ? s.shared_names[number] : 0; }
EXPORT u64 cukern_shared_size(unsigned number) { return number < shared_slots ? s.shared[number].bytes : 0; }
EXPORT u64 cukern_repeated(unsigned of_blocks) { return s.repeated_bytes[of_blocks]; }
EXPORT u64 cukern_written_place(unsigned param) {
    for (unsigned i = 0; i < s.area_count; ++i)
        if (s.global[i].number == (int)param) return s.global[i].written_place ? s.global[i].written_place : find_write(&s.global[i]);
    return 0;
}
EXPORT const char* cukern_last_error() { return last_error; }
EXPORT void cukern_raised(void** out) { memcpy(out, raised_error, sizeof raised_error); }
EXPORT void cukern_set_limit(unsigned long long nanoseconds) { limit_ns = nanoseconds; }
EXPORT unsigned long long cukern_limit() { return limit_ns; }

EXPORT Function* cukern_register(const Kernel* kernel, unsigned param_bytes, const Param* params, int flushes, const Dim* cluster) {
    Function* function = (Function*)calloc(1, sizeof(Function) + kernel->param_count * sizeof(Param));
    if (!function) return 0;
    const Region region = region_of(kernel);
    function->cluster = *cluster;
    function->param_bytes = param_bytes;
    function->param_count = kernel->param_count;
    function->flushes = flushes;
    function->checked = 1;
    function->base = region.base;
    function->low = region.low;
    function->high = region.high;
    memcpy(function->params, params, kernel->param_count * sizeof(Param));
    // One library may be registered several times, and keeps the numbers of its variables.
    static Function* functions;
    for (const Function* one = functions; one && !function->build; one = one->link)
        if (one->build->kernel == kernel) function->build = one->build;
    if (!function->build) {
        Build* build = (Build*)calloc(1, sizeof(Build));
        if (!build) return 0;
        build->kernel = kernel;
        if (!(build->static_shared = (const StaticShared*)calloc(shared_slots, sizeof(Variable)))) return 0;
        function->build = build;
    }
    function->link = functions;
    functions = function;
    *kernel->runtime = &checked_runtime;
    return function;
}

static void after_fork() {
    watch_after_fork();
    pthread_mutex_init(&running, 0);
    runs = false;
}

EXPORT int cukern_start(const Python* given) {
    static bool started;
    if (started) return 0;
    start_python(given);
    if (pthread_key_create(&worker_key, free_worker) || !reserve_memory()) return 1;
    install_fault_handlers();
    install_tick();
    started = true;
    return pthread_atfork(0, 0, after_fork);
}
