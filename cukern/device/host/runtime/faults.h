// Faults that the processor reports while a kernel runs, made faults of the kernel instead of the end of the process.
#pragma once
#include <signal.h>

#include "watch.h"

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction earlier_actions[sizeof fault_signals / sizeof *fault_signals];
constexpr size_t signal_stack_bytes = 65536;

// Says so if an address is in the pages around a block's dynamic shared memory.
static bool append_access(Text* text, const Worker* w, uintptr_t at) {
    for (unsigned rank = 0; rank < max_cluster; ++rank) {
        const uintptr_t shared = (uintptr_t)w->shared[rank];
        if (!shared || at < shared - guard_bytes || at >= shared + shared_pages + shared_guard_bytes) continue;
        append(text, "access of ");
        append_shared(text, w, rank, (const char*)at);
        return true;
    }
    return false;
}

static void describe_fault(Text* text, int signal, const siginfo_t* info) {
    const uintptr_t at = (uintptr_t)info->si_addr;
    const Worker* w = worker;
    const char* stack = w->in_block ? w->fiber_stacks[w->current] : w->plain_stack;
    const uintptr_t top = (uintptr_t)stack + (w->in_block ? fiber_stack_bytes : plain_stack_bytes);
    if (signal == SIGFPE) append(text, "integer division by zero, or of the lowest number by -1");
    else if (signal == SIGILL) append(text, "reached code that no right program reaches, as by an operation without a result");
    else if (at >= (uintptr_t)stack - guard_bytes && at < (uintptr_t)stack) append(text, "stack overflow");
    else if (at >= top && at < top + guard_bytes)
        append(text, "access past the thread's local memory, as by an index beyond the end of a local array");
    else if (append_access(text, w, at)) return;
    else if (info->si_code == SI_KERNEL || (signal == SIGBUS && info->si_code == BUS_ADRALN))
        append(text, "misaligned access of memory, or at an address that no pointer has");
    else append(text, "invalid access of memory at 0x%llx", (unsigned long long)at);
}

static void pass_on(int index, int signal, siginfo_t* info, void* context) {
    const struct sigaction* action = &earlier_actions[index];
    if (action->sa_flags & SA_SIGINFO) action->sa_sigaction(signal, info, context);
    else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) action->sa_handler(signal);
    else sigaction(signal, action, 0);  // the instruction runs again, and ends the process as it would have
}

static void on_fault(int signal, siginfo_t* info, void* context) {
    Worker* w = worker;
    if (!w || !w->running) {
        for (int i = 0; i < (int)(sizeof fault_signals / sizeof *fault_signals); ++i)
            if (fault_signals[i] == signal) pass_on(i, signal, info, context);
        return;
    }
    Text text = {w->message, message_bytes};
    append_running(w, &text);
    append(&text, ": ");
    describe_fault(&text, signal, info);
    const uintptr_t pc = program_counter(context);
    const Function* function = w->job->function;
    if (pc >= function->low && pc < function->high) append(&text, " [pc %llx]", (unsigned long long)(pc - function->base));
    append_sender(w, &text);
    give_up(w);
}

// SA_NODEFER, as the handler does not return: it goes on in the worker's own context.
static void install_fault_handlers() {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < (int)(sizeof fault_signals / sizeof *fault_signals); ++i)
        sigaction(fault_signals[i], &action, &earlier_actions[i]);
}

// Gives this OS thread a stack for the handler, which a kernel's stack overflow needs, unless it has one.
static void prepare_signal_stack(Worker* w) {
    stack_t present;
    if (sigaltstack(0, &present) != 0 || !(present.ss_flags & SS_DISABLE)) return;
    void* base = mmap(0, signal_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return;
    stack_t wanted = {};
    wanted.ss_sp = base;
    wanted.ss_size = signal_stack_bytes;
    if (sigaltstack(&wanted, 0) == 0) w->signal_stack = base;
    else munmap(base, signal_stack_bytes);
}

static void free_signal_stack(Worker* w) {
    if (!w->signal_stack) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, 0);
    munmap(w->signal_stack, signal_stack_bytes);
}
