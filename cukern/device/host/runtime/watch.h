// The user's kernels that take long: a watcher interrupts them, so that they heed Python's signals and the time limit.
#pragma once
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "python.h"

constexpr unsigned long long tick_ns = 50000000;
constexpr unsigned ticks_before_rest = 20;
// Which is ignored where nobody handles it, as after a fork and exec.
constexpr int tick_signal = SIGURG;

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t watch_wanted = PTHREAD_COND_INITIALIZER;
static Worker* workers;
static bool watcher_runs;
static int watching;  // atomic
static unsigned long long limit_ns;
static uintptr_t runtime_low, runtime_high;
static struct sigaction earlier_tick_action;
static pthread_key_t worker_key;
static void free_worker(void* pointer);

struct Region {
    uintptr_t of;
    uintptr_t base, low, high;
};

static int match_region(dl_phdr_info* info, size_t, void* pointer) {
    Region* region = (Region*)pointer;
    uintptr_t low = ~(uintptr_t)0, high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
        if (from < low) low = from;
        if (to > high) high = to;
    }
    if (region->of < low || region->of >= high) return 0;
    region->base = info->dlpi_addr;
    region->low = low;
    region->high = high;
    return 1;
}

// Where the library lies that an address is in.
static Region region_of(const void* address) {
    Region region = {(uintptr_t)address, 0, 0, 0};
    dl_iterate_phdr(match_region, &region);
    return region;
}

static uintptr_t program_counter(const void* context) {
    const ucontext_t* state = (const ucontext_t*)context;
#if defined(__x86_64__)
    return (uintptr_t)state->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)state->uc_mcontext.pc;
#else
    (void)state;
    return runtime_low;
#endif
}

// Whether a thread's record of what it waits for can be read, though it runs: a pointer may be an old one.
static bool is_readable(const Worker* w, const Wait* wait) {
    const uintptr_t stack = (uintptr_t)w->fiber_stacks[w->current], at = (uintptr_t)wait;
    const Function* function = w->job->function;
    if (at < stack || at + sizeof *wait > stack + fiber_stack_bytes || wait->what > cukern::condition) return false;
    const uintptr_t name = (uintptr_t)name_of(wait), file = (uintptr_t)wait->file;
    return file >= function->low && file < function->high &&
           ((name >= function->low && name < function->high) || (name >= runtime_low && name < runtime_high));
}

// Where the threads of the running block are; host.py puts the line in the place of the program counter.
static void describe_place(Worker* w, uintptr_t pc) {
    Text text = {w->message, message_bytes};
    const Function* function = w->job->function;
    append_running(w, &text);
    append(&text, w->thread_index ? " runs" : ", of which one runs");
    if (pc >= function->low && pc < function->high) append(&text, " [pc %llx]", (unsigned long long)(pc - function->base));
    if (!w->in_block) return;
    const Wait* wait = w->waits[w->current];
    if ((pc < function->low || pc >= function->high) && is_readable(w, wait))
        append(&text, " at %s, %s:%d", name_of(wait), wait->file, wait->line);
    unsigned others = 0;
    for (unsigned i = 0; i < w->warp_count; ++i) others += (unsigned)__builtin_popcount(w->warps[i].runnable);
    if (others > 1) append(&text, "\n  %u other threads that could run have not had their turn", others - 1);
    append_waits(w, &text);
}

// Not so at the moments before the kernel's stack is taken and after it is left.
static bool on_kernel_stack(const Worker* w, uintptr_t at) {
    const uintptr_t stack = (uintptr_t)(w->in_block ? w->fiber_stacks[w->current] : w->plain_stack);
    return at >= stack && at < stack + (w->in_block ? fiber_stack_bytes : plain_stack_bytes);
}

static bool is_local(const void* address) { return on_kernel_stack(worker, (uintptr_t)address); }

// For a handler that does not return, or only later.
static void take_ticks() {
    sigset_t ticks;
    sigemptyset(&ticks);
    sigaddset(&ticks, tick_signal);
    pthread_sigmask(SIG_UNBLOCK, &ticks, 0);
}

static void on_tick(int signal, siginfo_t* info, void* context) {
    Worker* w = worker;
    if (!w || !__atomic_load_n(&w->since, __ATOMIC_RELAXED)) {
        const struct sigaction* action = &earlier_tick_action;
        if (action->sa_flags & SA_SIGINFO) action->sa_sigaction(signal, info, context);
        else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) action->sa_handler(signal);
        return;
    }
    if (!w->running || w->whole || !on_kernel_stack(w, (uintptr_t)&w)) return;
    Job* job = w->job;
    const uintptr_t pc = program_counter(context);
    const bool here = pc >= runtime_low && pc < runtime_high;
    // In another library's function there may be a lock that it holds: the next tick will find it elsewhere.
    if (!here && (pc < job->function->low || pc >= job->function->high)) return;
    w->running = false;
    if (limit_ns && now_ns() > job->start + limit_ns) __atomic_store_n(&job->timed_out, 1, __ATOMIC_RELAXED);
    const bool late = __atomic_load_n(&job->timed_out, __ATOMIC_RELAXED);
    if (late) describe_place(w, pc);
    if (late || __atomic_load_n(&job->stop, __ATOMIC_RELAXED)) {
        take_ticks();
        give_up(w);
    }
    if (w->is_main) {
        const int error = errno;
        w->asks = true;
        take_ticks();
        cukern_switch(&w->interrupted, &w->home);
        errno = error;
    }
    w->running = true;
}

// Runs Python's signal handlers while the worker's kernel stands still; false when the kernel is to end.
// They may launch kernels themselves, with another worker.
static bool go_on_after_signals(Worker* w) {
    Job* job = w->job;
    const unsigned long long since = w->since, began = now_ns();
    __atomic_store_n(&w->since, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&job->function->paused, w, __ATOMIC_RELAXED);
    worker = 0;
    job->interrupted = signal_raised();
    if (worker) free_worker(worker);
    worker = w;
    pthread_setspecific(worker_key, w);
    __atomic_store_n(&job->function->paused, (const Worker*)0, __ATOMIC_RELAXED);
    job->start += now_ns() - began;
    __atomic_store_n(&w->since, since, __ATOMIC_RELAXED);
    if (job->interrupted) __atomic_store_n(&job->stop, 1, __ATOMIC_RELAXED);
    return !job->interrupted;
}

static void* watcher_main(void*) {
    pthread_mutex_lock(&watch_lock);
    for (;;) {
        for (unsigned quiet = 0; quiet < ticks_before_rest; ++quiet) {
            pthread_mutex_unlock(&watch_lock);
            const timespec tick = {0, (long)tick_ns};
            nanosleep(&tick, 0);
            pthread_mutex_lock(&watch_lock);
            const unsigned long long now = now_ns();
            for (Worker* w = workers; w; w = w->link) {
                const unsigned long long since = __atomic_load_n(&w->since, __ATOMIC_RELAXED);
                if (since) quiet = 0;
                if (since && now > since + tick_ns) pthread_kill(w->thread, tick_signal);
            }
        }
        __atomic_store_n(&watching, 0, __ATOMIC_SEQ_CST);
        for (Worker* w = workers; w; w = w->link)
            if (__atomic_load_n(&w->since, __ATOMIC_SEQ_CST)) watching = 1;
        while (!__atomic_load_n(&watching, __ATOMIC_RELAXED)) pthread_cond_wait(&watch_wanted, &watch_lock);
    }
}

static void wake_watcher() {
    pthread_mutex_lock(&watch_lock);
    __atomic_store_n(&watching, 1, __ATOMIC_SEQ_CST);
    if (!watcher_runs) {
        sigset_t all, before;
        pthread_t thread;
        pthread_attr_t attributes;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        watcher_runs = !pthread_create(&thread, &attributes, watcher_main, 0);
        pthread_attr_destroy(&attributes);
        pthread_sigmask(SIG_SETMASK, &before, 0);
    }
    pthread_cond_signal(&watch_wanted);
    pthread_mutex_unlock(&watch_lock);
}

static void begin_watch(Worker* w, unsigned long long now) {
    __atomic_store_n(&w->since, now, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&watching, __ATOMIC_SEQ_CST)) wake_watcher();
}

static void end_watch(Worker* w) { __atomic_store_n(&w->since, 0, __ATOMIC_RELAXED); }

static void add_worker(Worker* w) {
    w->thread = pthread_self();
    w->is_main = syscall(SYS_gettid) == getpid();
    pthread_mutex_lock(&watch_lock);
    w->link = workers;
    workers = w;
    pthread_mutex_unlock(&watch_lock);
}

static void remove_worker(Worker* w) {
    pthread_mutex_lock(&watch_lock);
    Worker** at = &workers;
    while (*at && *at != w) at = &(*at)->link;
    if (*at) *at = w->link;
    pthread_mutex_unlock(&watch_lock);
}

// Only the thread that forked is in the child.
static void watch_after_fork() {
    pthread_mutex_init(&watch_lock, 0);
    pthread_cond_init(&watch_wanted, 0);
    watcher_runs = false;
    watching = 0;
    workers = worker;
    if (!worker) return;
    worker->link = 0;
    worker->is_main = true;
}

// Not on a stack of its own: it may leave its thread for Python, whose own handlers take that one. No tick comes while it runs:
// it would find the handler itself interrupted, and not that a function of another library is beneath.
static void install_tick() {
    const Region region = region_of((const void*)&on_tick);
    runtime_low = region.low;
    runtime_high = region.high;
    struct sigaction action = {};
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(tick_signal, &action, &earlier_tick_action);
}
