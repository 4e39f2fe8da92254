// The host runtime: launches kernels, hands their blocks to all cores, and reports what goes wrong in one.
// Compiled once a machine. C library only.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "blocks.h"
#include "faults.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#include "prepared.h"

constexpr long wake_ns = 30000;   // less work than this is done before another core has woken
constexpr long chunk_ns = 10000;  // work taken at once
constexpr float quick_budget_ns = 1e8f;  // run time of a quick build that pays for an optimised one
constexpr double quick_elements = 1 << 24;  // of an array, whose launch alone may take as long
constexpr int max_workers = 256;
constexpr int max_stacks = 24000;  // two memory maps each; Linux allows 65530 a process
constexpr int helper_stacks = 16000;  // of these, as a launch can do without a helper, and not without its own thread's

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;
static pthread_cond_t helper_left = PTHREAD_COND_INITIALIZER;
static Job* jobs;
static int helper_count, helpers_wanted, idle_helpers;
static int stacks;  // atomic
static const cukern::Runtime fiber_runtime = {wait_for_others, let_others_run, fault, send, commit, finish, roles,
                                             cluster_rank, cluster_size, cluster_arrive, cluster_wait, map_shared, is_shared, is_local,
                                             fence_to_async, wrote_async, reads_async, counts_async,
                                             fence_registers, gives_registers, wrote_registers, 0, 0, 0};
static const cukern::Runtime plain_runtime = {wait_without_fibers, wait_without_fibers, fault, 0, 0, 0, 0,
                                             no_rank, one_block, 0, 0, map_to_itself, is_perhaps_shared, 0, fence_without_fibers, 0, 0, 0,
                                             fence_without_fibers, 0, 0, 0, 0};

static void free_worker(void* pointer) {
    Worker* w = (Worker*)pointer;
    remove_worker(w);
    for (unsigned i = 0; i < w->made; ++i) free_stack(w->fiber_stacks[i], fiber_stack_bytes);
    __atomic_fetch_sub(&stacks, (int)w->made, __ATOMIC_RELAXED);
    free_stack(w->plain_stack, plain_stack_bytes);
    free_shared(w);
    free_seen(w);
    if (w->copies) munmap(w->copies - guard_bytes, slot_bytes * max_guards + 2 * guard_bytes);
    free_signal_stack(w);
    free(w->pending);
    free(w->keys);
    free(w->given);
    munmap(w, sizeof(Worker));
    worker = 0;
}

// The calling thread's worker with all that a kernel needs, or null when there is no memory.
static Worker* prepare_worker(const Job* job, int most) {
    Worker* w = worker;
    if (!w) {
        w = (Worker*)map(sizeof(Worker));
        if (!w) return 0;
        worker = w;
        pthread_setspecific(worker_key, w);
        add_worker(w);
        prepare_signal_stack(w);
    }
    if (!make_shared(w, job)) return 0;
    if (job->build->kernel->run_blocks) {
        if (!w->plain_stack) {
            if (!(w->plain_stack = new_stack(plain_stack_bytes))) return 0;
            make_context(&w->plain, w->plain_stack, plain_stack_bytes, plain_main);
        }
    } else {
        const Dim block = job->launch.block;
        const unsigned threads = block.x * block.y * block.z, blocks = blocks_of(job->cluster);
        while (w->made < threads + (blocks - 1) * ((threads + 31) & ~31u)) {
            if (__atomic_add_fetch(&stacks, 1, __ATOMIC_RELAXED) > most ||
                !(w->fiber_stacks[w->made] = new_stack(fiber_stack_bytes))) {
                __atomic_fetch_sub(&stacks, 1, __ATOMIC_RELAXED);
                return 0;
            }
            ++w->made;
        }
    }
    return w;
}

static void record_fault(Job* job, const Worker* w, unsigned long long block) {
    pthread_mutex_lock(&lock);
    const size_t used = strlen(job->message);
    if (job->timed_out && used) {  // where every core was
        snprintf(job->message + used, message_bytes - used, "\n%s", w->message);
    } else if (w->message[0] && (!used || block < job->fault_block)) {
        job->fault_block = block;
        memcpy(job->message, w->message, message_bytes);
    }
    __atomic_store_n(&job->stop, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

// Takes the next blocks and runs them; the number taken, 0 when none are left.
static unsigned long long run_chunk(Worker* w, Job* job) {
    if (__atomic_load_n(&job->stop, __ATOMIC_ACQUIRE)) return 0;
    const unsigned long long want = __atomic_load_n(&job->chunk, __ATOMIC_RELAXED);
    const unsigned long long first = __atomic_fetch_add(&job->next, want, __ATOMIC_RELAXED);
    if (first >= job->total) return 0;
    const unsigned long long count = job->total - first < want ? job->total - first : want;
    w->job = job;
    w->checked = job->function->checked;
    w->kernel = job->build->kernel;
    w->launch = &job->launch;
    w->dynamic_shared = dynamic_shared_of(w, 0, job->shared);
    w->cluster = blocks_of(job->cluster);
    w->first = first;
    w->count = count;
    w->faulted = false;
    w->message[0] = 0;
    const bool done = w->kernel->run_blocks ? run_plain_blocks(w) : run_fiber_blocks(w);
    if (!done) record_fault(job, w, first);
    return count;
}

static void* helper_main(void*) {
    pthread_mutex_lock(&lock);
    for (;;) {
        Job* job = jobs;
        while (job && (__atomic_load_n(&job->next, __ATOMIC_RELAXED) >= job->total || job->stop)) job = job->link;
        if (!job) {
            ++idle_helpers;
            pthread_cond_wait(&work_came, &lock);
            --idle_helpers;
            continue;
        }
        ++job->helpers;
        pthread_mutex_unlock(&lock);
        Worker* w = prepare_worker(job, helper_stacks);
        if (w && job->function->checked) begin_watch(w, job->start);
        while (w && run_chunk(w, job)) continue;
        if (w) end_watch(w);
        pthread_mutex_lock(&lock);
        if (--job->helpers == 0) pthread_cond_broadcast(&helper_left);
        if (!w) pthread_cond_wait(&work_came, &lock);
    }
}

// Makes the job known to the helpers, starting those that are missing.
static void call_helpers(Job* job, unsigned long long chunks) {
    pthread_mutex_lock(&lock);
    job->link = jobs;
    jobs = job;
    int wake = chunks < (unsigned long long)helpers_wanted ? (int)chunks : helpers_wanted;
    while (helper_count < wake) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        const int failed = pthread_create(&thread, &attributes, helper_main, 0);
        pthread_attr_destroy(&attributes);
        if (failed) break;
        ++helper_count;
    }
    if (wake > idle_helpers) wake = idle_helpers;
    for (int i = 0; i < wake; ++i) pthread_cond_signal(&work_came);
    pthread_mutex_unlock(&lock);
}

// Waits for the helpers to end, and lets Python handle its signals meanwhile if the job is a user's.
static void dismiss_helpers(Job* job, const Worker* w) {
    pthread_mutex_lock(&lock);
    Job** at = &jobs;
    while (*at != job) at = &(*at)->link;
    *at = job->link;
    while (job->helpers) {
        if (!job->function->checked || !w->is_main || job->stop) {
            pthread_cond_wait(&helper_left, &lock);
            continue;
        }
        timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += (until.tv_nsec + (long)tick_ns) / 1000000000;
        until.tv_nsec = (until.tv_nsec + (long)tick_ns) % 1000000000;
        if (!pthread_cond_timedwait(&helper_left, &lock, &until)) continue;
        pthread_mutex_unlock(&lock);
        go_on_after_signals(worker);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

static unsigned long long chunk_for(const Job* job, double block_ns) {
    const double share = (double)job->total / (4.0 * (helpers_wanted + 1));
    double chunk = block_ns > 0 ? chunk_ns / block_ns : 1;
    if (chunk > share) chunk = share;
    return chunk < 1 ? 1 : (unsigned long long)chunk;
}

// Runs the blocks on this thread, and calls the others as soon as there is enough to do for them.
static void run_job(Worker* w, Job* job, Function* function) {
    const bool alone = helpers_wanted == 0 || job->total == 1;
    if (alone && !function->checked && function->quick_ns == 0) {  // nobody needs the time
        job->chunk = job->total;
        run_chunk(w, job);
        return;
    }
    job->start = now_ns();
    if (function->checked) begin_watch(w, job->start);
    bool called = alone;
    job->chunk = alone ? job->total : chunk_for(job, function->block_ns);
    if (!called && (function->block_ns == 0 || function->block_ns * (double)job->total > wake_ns)) {
        call_helpers(job, job->total / job->chunk);
        called = true;
    }
    double elapsed = 0;
    unsigned long long done = 0;
    while (const unsigned long long count = run_chunk(w, job)) {
        done += count;
        elapsed = (double)(now_ns() - job->start);
        if (called) continue;
        const double block_ns = elapsed / (double)done;
        __atomic_store_n(&job->chunk, chunk_for(job, block_ns), __ATOMIC_RELAXED);
        if (job->total > done && block_ns * (double)(job->total - done) > wake_ns) {
            call_helpers(job, (job->total - done + job->chunk - 1) / job->chunk);
            called = true;
        }
    }
    if (called && !alone) dismiss_helpers(job, w);
    if (function->checked) end_watch(w);
    if (done) function->block_ns = (float)(elapsed / (double)done);
    if (function->quick_ns > 0) function->quick_ns -= (float)elapsed;
}

// Puts addresses and lengths in place of ndarrays; false if an object is none. Another one, such as a NumPy scalar, has other
// fields there, and the kernel would write to any place.
static bool resolve(const Function* function, unsigned char* params) {
    for (unsigned i = 0; i < function->param_count; ++i) {
        const Param* param = &function->params[i];
        unsigned long long* slot = (unsigned long long*)(params + param->offset);
        if (param->kind == 0) continue;
        const void* object = (const void*)*slot;
        const bool is_none = object == none_object;
        if (!is_none && !is_array(object) && !python.is_subtype(type_of(object), array_type)) return false;
        const ArrayFields* array = is_none ? 0 : fields_of((const void*)*slot);
        slot[0] = array ? (unsigned long long)array->data : 0;
        for (unsigned axis = 0; axis < param->axes; ++axis) {
            slot[1 + axis] = array ? (unsigned long long)array->shape[axis] : 0;
            slot[1 + param->axes + axis] = array ? (unsigned long long)(array->strides[axis] / (long)(param->itemsize ? param->itemsize : 1)) : 0;
        }
    }
    return true;
}

static thread_local const char* last_error __attribute__((tls_model("initial-exec")));

static int fail(const char* message) {
    last_error = message;
    return 1;
}

static int end_with(Worker* w, Job* job) {
    if (job->function->flushes) fflush(stdout);
    if (job->interrupted) return 2;
    if (!job->stop) return 0;
    memcpy(w->message, job->message, message_bytes);
    return job->timed_out ? 3 : 1;
}

// Runs a user's kernel: with red zones around what it writes.
static int run_checked(Worker* w, Job* job, const unsigned char* objects, unsigned char* params) {
    Function* function = job->function;
    const Worker* paused = __atomic_load_n(&function->paused, __ATOMIC_RELAXED);
    if (paused && pthread_equal(paused->thread, pthread_self()))
        return fail("a signal's handler cannot launch the kernel that the signal interrupted");
    Guards guards;
    plan_guards(&guards, job, objects, w);
    if (!take_guards(&guards))
        return fail("a signal's handler cannot launch with memory that the interrupted kernel writes");
    set_zones(&guards, function, params);
    run_job(w, job, function);
    const int status = end_with(w, job);
    Text text = {status ? job->message : w->message, message_bytes};
    const bool overrun = check_zones(&guards, function, &text);
    leave_guards(&guards);
    last_error = w->message;
    return status || !overrun ? status : 1;
}

static int (*divert)(Function*, const unsigned char*);
constexpr int unwatched = 7;  // its result for a launch that is to run as usual
static Function* functions;  // under the lock
static int divert_all;
// Whether a build is to be replaced: a quick one, 4 when it has run long, 5 when this launch may; 8 of one for checked launches.
// `objects` are the parameters.
static int worth_replacing(Function* function, const unsigned char* objects) {
    if (function->quick_ns == __builtin_inff()) return 8;
    for (unsigned i = 0; i < function->param_count; ++i) {
        const void* object;
        memcpy(&object, objects + function->params[i].offset, sizeof object);
        if (function->params[i].kind == 0 || object == none_object) continue;
        const ArrayFields* array = fields_of(object);
        double elements = 1;
        for (int axis = 0; axis < array->axes; ++axis) elements *= (double)array->shape[axis];
        if (elements >= quick_elements) return 5;
    }
    if (function->quick_ns > 0) return 0;
    function->quick_ns = 10 * quick_budget_ns;  // until this is said again, if nobody replaces it
    return 4;
}

// Launches with `packed`: a Header, then the parameters. 1 when a block faulted and 3 when it ran too long, see
// cukern_last_error; 2 when a signal's handler raised an error, see cukern_raised; 4, 5 and 8 when it has not run and
// cukern_replace is to be called: before this launch in the case of 5 and 8; 6 when it was diverted, and raised an error.
EXPORT int cukern_launch(Function* function, const unsigned char* packed) {
    Header header;
    memcpy(&header, packed, sizeof header);
    unsigned char* params = (unsigned char*)__builtin_alloca_with_align(function->param_bytes + 8, 128);
    memcpy(params, packed + sizeof header, function->param_bytes);
    if (!resolve(function, params)) return fail("an argument is not an ndarray");
    if (header.shared > shared_bytes) return fail("more dynamic shared memory than a block has");
    if (function->checked > 1)
        if (const int status = divert(function, packed); status != unwatched) return status;
    if (function->quick_ns != 0)
        if (const int status = worth_replacing(function, packed + sizeof header)) return status;
    Job job;
    job.function = function;
    job.build = __atomic_load_n(&function->build, __ATOMIC_ACQUIRE);
    job.launch = {params, header.grid, header.block};
    job.cluster = cluster_of(function, header.grid);
    job.shared = header.shared;
    job.total = (unsigned long long)header.grid.x * header.grid.y * header.grid.z / blocks_of(job.cluster);
    job.next = job.helpers = job.stop = job.timed_out = job.interrupted = 0;
    job.fault_block = 0;
    job.message[0] = 0;
    Worker* w = prepare_worker(&job, max_stacks);
    if (!w) return fail("no memory for the stacks of the block's threads");
    if (function->checked & 1) return run_checked(w, &job, packed + sizeof header, params);
    run_job(w, &job, function);
    last_error = w->message;
    return end_with(w, &job);
}

// The error that a signal's handler raised in this thread: type, value and traceback, which the caller owns.
EXPORT void cukern_raised(void** out) { memcpy(out, raised_error, sizeof raised_error); }

EXPORT const char* cukern_last_error() { return last_error; }

// A kernel that a compiler has made, with the range that its variables in static shared memory are in; null without memory.
static const Build* build_of(const Kernel* kernel, const StaticShared* shared, unsigned count) {
    Build* build = (Build*)calloc(1, sizeof(Build));
    if (!build) return 0;
    long long high = 0;
    for (unsigned i = 0; i < count; ++i) {
        const long long end = shared[i].offset + shared[i].bytes;
        if (i == 0 || shared[i].offset < build->shared_low) build->shared_low = shared[i].offset;
        if (i == 0 || end > high) high = end;
    }
    build->kernel = kernel;
    build->static_shared = shared;
    build->static_count = count;
    build->shared_span = (size_t)(high - build->shared_low);
    return build;
}

static void set_build(Function* function, const Build* build, Stage stage) {
    const Kernel* kernel = build->kernel;
    // A library for checks has the runtime of these, also where another function of the same library has been checked before.
    if (stage != for_checks) *kernel->runtime = kernel->run_blocks ? &plain_runtime : &fiber_runtime;
    const Region region = region_of(kernel);
    function->base = region.base;
    function->low = region.low;
    function->high = region.high;
    function->quick_ns = stage == quick ? quick_budget_ns : stage == for_checks ? __builtin_inff() : 0;
    __atomic_store_n(&function->build, build, __ATOMIC_RELEASE);
}

// A loaded kernel and how to read its parameters, for cukern_launch; it lives as long as the process, and so must the
// names in `params` and `shared`.
EXPORT Function* cukern_register(const Kernel* kernel, unsigned param_bytes, const Param* params, int flushes, int checked,
                                 const StaticShared* shared, unsigned shared_count, Stage stage, const Dim* cluster) {
    Function* function = (Function*)calloc(1, sizeof(Function) + kernel->param_count * sizeof(Param));
    const Build* build = build_of(kernel, shared, shared_count);
    if (!function || !build) return 0;
    function->param_bytes = param_bytes;
    function->param_count = kernel->param_count;
    function->flushes = flushes;
    function->checked = checked;
    function->cluster = *cluster;
    memcpy(function->params, params, kernel->param_count * sizeof(Param));
    set_build(function, build, stage);
    pthread_mutex_lock(&lock);
    function->link = functions;
    functions = function;
    if (divert_all) function->checked |= diverted;
    pthread_mutex_unlock(&lock);
    return function;
}

// What launches a kernel that is diverted: checked.
EXPORT void cukern_divert(int (*launch)(Function*, const unsigned char*)) { divert = launch; }
EXPORT void cukern_divert_one(Function* function) { function->checked |= always_diverted; }
// Diverts all kernels from now on, or no longer.
EXPORT void cukern_divert_all(int all) {
    pthread_mutex_lock(&lock);
    divert_all = all;
    for (Function* one = functions; one; one = one->link) one->checked = all ? one->checked | diverted : one->checked & ~diverted;
    pthread_mutex_unlock(&lock);
}

// Replaces a build, for the launches that begin from now on; a quick one stays if there is none.
EXPORT void cukern_replace(Function* function, const Kernel* kernel, const StaticShared* shared, unsigned shared_count, Stage stage) {
    const Build* build = kernel ? build_of(kernel, shared, shared_count) : 0;
    if (build) set_build(function, build, stage);
    else function->quick_ns = 0;
}

// What `object`, an ndarray, seems to be: its data pointer, number of axes, first length and first stride.
EXPORT void cukern_probe(unsigned long long object, long long* out) {
    const ArrayFields* array = fields_of((const void*)object);
    out[0] = (long long)array->data;
    out[1] = array->axes;
    out[2] = array->shape[0];
    out[3] = array->strides[0];
}

static void before_fork() {
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&guard_lock);
    pthread_mutex_lock(&watch_lock);
}
static void after_fork_in_parent() {
    pthread_mutex_unlock(&watch_lock);
    pthread_mutex_unlock(&guard_lock);
    pthread_mutex_unlock(&lock);
}
// The helpers are not in the child: it starts its own when it needs them.
static void after_fork_in_child() {
    helper_count = idle_helpers = guard_waiters = 0;
    jobs = 0;
    guards_in_use = 0;
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&work_came, 0);
    pthread_cond_init(&helper_left, 0);
    pthread_mutex_init(&guard_lock, 0);
    pthread_cond_init(&guard_left, 0);
    watch_after_fork();
}

static int start(int threads, const Python* given) {
    start_python(given);
    helpers_wanted = (threads < max_workers ? threads : max_workers) - 1;
    if (pthread_key_create(&worker_key, free_worker)) return 1;
    install_fault_handlers();
    install_tick();
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

// Starts once a process, however often it is called.
EXPORT int cukern_start(int threads, const Python* given) {
    static bool started;
    pthread_mutex_lock(&lock);
    const int failed = started ? 0 : start(threads, given);
    started = !failed;
    pthread_mutex_unlock(&lock);
    return failed;
}

// The time that a user's kernel may take; any if 0.
EXPORT void cukern_set_limit(unsigned long long nanoseconds) { limit_ns = nanoseconds; }
EXPORT unsigned long long cukern_limit() { return limit_ns; }

// When what goes on beside the threads is done: 0 at once, 1 as late as it may, 2 at random by the seed.
EXPORT void cukern_set_asynchrony(int when, unsigned long long seed) {
    __atomic_store_n(&asynchrony_seed, seed, __ATOMIC_RELAXED);
    __atomic_store_n(&asynchrony, when, __ATOMIC_RELAXED);
}

// How much memory of large arrays is kept, once nothing holds it: of arrays of more than `least` bytes, and `all` at most.
EXPORT void cukern_keep(long least, long all) {
    const int lock = python.take_lock();
    least_kept = least;
    all_kept = all;
    leave_room(0);
    python.release_lock(lock);
}

// Methods of Python's that make arrays with red zones, launch, or both; see python.h and prepared.h.
EXPORT const Method* cukern_allocate_method() { return &allocate_method; }
EXPORT const Method* cukern_launch_method() { return &launch_method; }
EXPORT const Method* cukern_make_method() { return &make_method; }
EXPORT const Method* cukern_new_method() { return &new_method; }
