// Fibers: a stack of their own, switched by hand, so that the threads of a block take turns on one core.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(CUKERN_UCONTEXT)

struct Context {
    void* stack_pointer;
};
constexpr bool contexts_move = true;

// Saves what a call must preserve on the stack, and continues another context the same way.
extern "C" __attribute__((visibility("hidden"))) void cukern_switch(Context* from, Context* to);
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".hidden cukern_switch\n"
    ".globl cukern_switch\n"
    ".type cukern_switch, @function\n"
    "cukern_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq (%rsi), %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  popq %rcx\n  jmp *%rcx\n"
    ".size cukern_switch, . - cukern_switch\n");

static void make_context(Context* context, char* base, size_t size, void (*entry)()) {
    uintptr_t* top = (uintptr_t*)(((uintptr_t)base + size) & ~(uintptr_t)15);
    *--top = 0;  // where `entry` would return to; it never does
    *--top = (uintptr_t)entry;
    for (int i = 0; i < 6; ++i) *--top = 0;
    context->stack_pointer = top;
}

#elif defined(__aarch64__) && !defined(CUKERN_UCONTEXT)

struct Context {
    void* stack_pointer;
};
constexpr bool contexts_move = true;

extern "C" __attribute__((visibility("hidden"))) void cukern_switch(Context* from, Context* to);
__asm__(
    ".text\n"
    ".p2align 4\n"
    ".hidden cukern_switch\n"
    ".globl cukern_switch\n"
    ".type cukern_switch, %function\n"
    "cukern_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  ldr x9, [x1]\n"
    "  mov sp, x9\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n"
    ".size cukern_switch, . - cukern_switch\n");

static void make_context(Context* context, char* base, size_t size, void (*entry)()) {
    uintptr_t* frame = (uintptr_t*)(((uintptr_t)base + size) & ~(uintptr_t)15) - 20;
    for (int i = 0; i < 20; ++i) frame[i] = 0;
    frame[11] = (uintptr_t)entry;  // x30
    context->stack_pointer = frame;
}

#else
#include <ucontext.h>

struct Context {
    ucontext_t state;
};
constexpr bool contexts_move = false;  // one may have pointers into itself

static void cukern_switch(Context* from, Context* to) { swapcontext(&from->state, &to->state); }

static void make_context(Context* context, char* base, size_t size, void (*entry)()) {
    getcontext(&context->state);
    context->state.uc_stack.ss_sp = base;
    context->state.uc_stack.ss_size = size;
    context->state.uc_link = 0;
    makecontext(&context->state, entry, 0);
}
#endif

constexpr size_t guard_bytes = 65536;  // a multiple of every page size in use
constexpr size_t fiber_stack_bytes = 640 * 1024;  // more than the 512 KB of a CUDA thread
constexpr size_t plain_stack_bytes = 8 * 1024 * 1024;

// A stack with inaccessible pages on both sides; null when there is no memory. Pages cost nothing until touched.
static char* new_stack(size_t size) {
    const size_t all = guard_bytes + size + guard_bytes;
    void* base = mmap(0, all, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED) return 0;
    char* top = (char*)base + guard_bytes + size;
    if (mprotect(base, guard_bytes, PROT_NONE) != 0 || mprotect(top, guard_bytes, PROT_NONE) != 0) {
        munmap(base, all);
        return 0;
    }
    return (char*)base + guard_bytes;
}

static void free_stack(char* base, size_t size) {
    if (base) munmap(base - guard_bytes, guard_bytes + size + guard_bytes);
}
