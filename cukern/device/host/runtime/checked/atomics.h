// Atomic and volatile accesses, fences, and the order that they make between threads.
#pragma once
#include "access.h"

constexpr unsigned most_looks = 1 << 13;  // of a thread in a block, in a run that begins with the last one

// Lets other threads run where one looks again and again at what another one writes.
static void let_spin(uintptr_t at, uintptr_t pc) {
    static char places[max_places][24];  // in the message of a launch that is stopped; report.py puts the lines there
    static uintptr_t written[max_places];
    // Where a run is compared with another, one more turn of a thread makes no difference to others.
    if (s.late_place && s.spun_at[s.me] != at) s.spins[s.me] = 0;
    s.spun_at[s.me] = at;
    if (s.order && ++s.looks > most_looks * s.cluster.block_threads) {
        s.gave_up = true;
        fail_here(worker, "it waits for a block that has not begun", 0, 0);
    }
    // In other orders than the usual one they also run between a plain read and an atomic operation after it.
    if (!s.in_fibers || s.mode || (++s.spins[s.me] % 16 && !(s.random && !s.late_place && draw() % 4 == 0))) return;
    if (s.suspect_count) settle_suspects();
    if (written[s.me] != pc - s.base) snprintf(places[s.me], sizeof places[0], "[pc %llx]", (u64)(written[s.me] = pc - s.base));
    Wait wait = {};
    wait.what = cukern::yield_thread;
    wait.file = places[s.me];
    let_others_run(&wait);
}

#define CUKERN_PLAIN(size)                                                                              \
    HOOK void __tsan_read##size(void* at) { access<size, true, false, plain>((uintptr_t)at, HERE); }    \
    HOOK void __tsan_write##size(void* at) { access<size, false, true, plain>((uintptr_t)at, HERE); }   \
    HOOK void __tsan_unaligned_read##size(void* at) { access<size, true, false, plain>((uintptr_t)at, HERE); }  \
    HOOK void __tsan_unaligned_write##size(void* at) { access<size, false, true, plain>((uintptr_t)at, HERE); } \
    HOOK void __tsan_read_write##size(void* at) {                                                       \
        access<size, true, false, plain>((uintptr_t)at, HERE);                                          \
        access<size, false, true, plain>((uintptr_t)at, HERE);                                          \
    }                                                                                                   \
    HOOK void __tsan_unaligned_read_write##size(void* at) {                                             \
        access<size, true, false, plain>((uintptr_t)at, HERE);                                          \
        access<size, false, true, plain>((uintptr_t)at, HERE);                                          \
    }                                                                                                   \
    HOOK void __tsan_volatile_read##size(void* at) { watch_value<size, loose>((uintptr_t)at, HERE); }          \
    HOOK void __tsan_volatile_write##size(void* at) { show_value<size, loose>((uintptr_t)at, HERE); }          \
    HOOK void __tsan_unaligned_volatile_read##size(void* at) { watch_value<size, loose>((uintptr_t)at, HERE); } \
    HOOK void __tsan_unaligned_volatile_write##size(void* at) { show_value<size, loose>((uintptr_t)at, HERE); }

static void acquire_now(uintptr_t at, bool looks);

// Of the block alone, or of all.
static void fence(bool of_block) {
    if (!s.on) return;
    for (unsigned i = s.unacquired_count; i-- > 0;)
        if (const Unacquired one = s.unacquired[i]; one.thread == s.me) {
            s.unacquired[i] = s.unacquired[--s.unacquired_count];
            acquire_now(one.at, one.looks);
        }
    (of_block ? s.block_fence_time : s.fence_time)[s.me] = s.now;
    if (!of_block) s.cluster.block_met[s.me] = s.cluster.barrier_time[s.rank], s.cluster.warp_met[s.me] = s.warp_time[s.me / 32];
    replace(learnt_at_fence[of_block][s.me], use(learnt_by[s.me]));
    tick();
}

static void release(uintptr_t at, unsigned fence_time, Scope scope, Learnt* learnt) {
    const unsigned waited = has_waited(s.me);
    Release made = {at, learnt ? learnt->id : 0, 0, s.me, fence_time, s.cluster.barrier_time[s.rank], s.warp_time[s.me / 32],
                    waited ? s.cluster.last_came[waited & 3] : 0, scope};
    const u64 key = key_of(release_entry + scope, at);
    unsigned number = find(own_entries, key);
    if (number != none && is_same(s.releases[number], made)) return;
    made.id = ++last_id;
    if (number == none) {
        if (!room_for(s.releases, s.release_count, s.release_room)) return;
        put(own_entries, key, number = s.release_count++);
    }
    s.releases[number] = made;
    Word* const word = word_at(key_of_place(at, scope), true);
    if (word && scope != nowhere) show(word, made, learnt);
    s.block_releases |= scope == own_block;
    ++s.shown;
    tick();
}

static void release(uintptr_t at) {
    if (!s.on) return;
    const unsigned of_all = s.fence_time[s.me], of_block = s.block_fence_time[s.me];
    if (of_all > s.block_start) release(at, of_all, everywhere, learnt_at_fence[0][s.me]);
    if (of_block > s.block_start && of_block > of_all) release(at, of_block, own_block, learnt_at_fence[1][s.me]);
    if (s.has_stores && is_global(at) && s.unfenced++ < most_unfenced) release(at, s.now, nowhere, 0);
}

// Notes that the running thread has seen a value, for what earlier blocks let others see there.
static void note_acquire(Word* word, uintptr_t at, bool looks) {
    const u64 key = key_of(looks ? look_entry : acquire_entry, at);
    if (find(own_entries, key) != none) return;
    Acquire* room = room_for(s.acquires, s.acquire_count, s.acquire_room);
    if (!room) return;
    *room = {s.me, s.now, s.block_count, word->acquired_in ? word->last_acquire : none, 0, looks};
    if (word->acquired_in != s.block_count) word->first_time = s.now;
    word->acquired_in = s.block_count;
    put(own_entries, key, word->last_acquire = s.acquire_count++);
}

static void acquire_now(uintptr_t at, bool looks) {
    s.has_acquired = true;
    if (s.acquired_at[s.me] == at && s.acquired_count[s.me] == s.shown) return;
    s.acquired_at[s.me] = at;
    s.acquired_count[s.me] = s.shown;
    if (Word* word = word_at(at, false)) {
        learn(*word);
        if (is_global(at)) note_acquire(word, at, looks);
    }
    if (!s.block_releases) return;
    if (const Word* word = word_at(key_of_place(at, own_block), false)) learn(*word);
}
// One that is relaxed is left to the thread's next fence.
static void acquire(uintptr_t at, bool looks) {
    if (!s.on || !s.shown) return;
    if (!s.strict && !s.is_relaxed[s.me]) return acquire_now(at, looks);
    for (unsigned i = 0; i < s.unacquired_count; ++i)
        if (s.unacquired[i].thread == s.me && s.unacquired[i].at == at) return void(s.unacquired[i].looks |= looks);
    if (s.unacquired_count == most_unacquired) return acquire_now(at, looks);
    s.unacquired[s.unacquired_count++] = {at, s.me, looks};
}

template <unsigned size, unsigned how>
static inline void watch_value(uintptr_t at, uintptr_t pc) {
    let_spin(at, pc);
    if (s.late_place) note_return(at);
    access<size, true, false, how>(at, pc);
    acquire(at, true);
}
template <unsigned size, unsigned how>
static inline void show_value(uintptr_t at, uintptr_t pc) {
    if (s.late_place) note_store(at);
    s.sets = true;
    access<size, false, true, how>(at, pc);
    s.sets = false;
    if (at - s.arena < s.arena_bytes || at - s.low < s.high - s.low) s.has_stores = true;
    release(at);
}
template <unsigned size, unsigned how = atomic, bool looks = true, bool returns = true>
static inline void change_value(uintptr_t at, uintptr_t pc) {
    let_spin(at, pc);
    access<size, true, true, how>(at, pc);
    if (returns && s.late_place) note_return(at);
    acquire(at, looks);
    release(at);
}
// An exchange whose result the kernel drops has an order of its own, too.
template <unsigned size>
static inline void exchange_value(uintptr_t at, u64 value, bool sets, uintptr_t pc) {
    if (s.late_place) note_exchange(at, value);
    s.sets = sets;
    change_value<size, swap, false>(at, pc);
    s.sets = false;
}
// An atomic operation that changes nothing is a look, as a volatile read is.
template <unsigned size, unsigned how>
static inline void look_or_change(uintptr_t at, bool changes, uintptr_t pc) {
    if (changes) return change_value<size, how, how == sum>(at, pc);
    watch_value<size, loose>(at, pc);
    release(at);
}
// A compare and swap. One whose result the kernel drops has an order of its own (dropped.py): what was read before it matters as
// before a sum, as it may change nothing, and nobody knows. Relaxed ones are steps of exchange_by.
template <unsigned size>
static inline void swap_value(uintptr_t at, int order, bool changes, uintptr_t pc) {
    if (order == __ATOMIC_ACQ_REL) change_value<size, unseen, false, false>(at, pc);
    else look_or_change<size, atomic>(at, changes || order == __ATOMIC_RELAXED, pc);
}

CUKERN_PLAIN(1)
CUKERN_PLAIN(2)
CUKERN_PLAIN(4)
CUKERN_PLAIN(8)
CUKERN_PLAIN(16)
#undef CUKERN_PLAIN

#define CUKERN_FETCH(bits, T, name, builtin, how, neutral)                              \
    HOOK T __tsan_atomic##bits##_##name(volatile T* at, T value, int) {                 \
        look_or_change<bits / 8, how>((uintptr_t)at, value != (T)(neutral), HERE);      \
        return builtin(at, value, __ATOMIC_SEQ_CST);                                    \
    }
#define CUKERN_ATOMICS(bits, T)                                                         \
    HOOK T __tsan_atomic##bits##_load(const volatile T* at, int) {                      \
        watch_value<bits / 8, atomic>((uintptr_t)at, HERE);                                    \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                   \
    }                                                                                   \
    HOOK void __tsan_atomic##bits##_store(volatile T* at, T value, int) { /* clang's for an exchange whose result is not used */ \
        exchange_value<bits / 8>((uintptr_t)at, value, true, HERE);                     \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                  \
    }                                                                                   \
    HOOK T __tsan_atomic##bits##_exchange(volatile T* at, T value, int order) {         \
        exchange_value<bits / 8>((uintptr_t)at, value, order == __ATOMIC_ACQ_REL, HERE); \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                        \
    }                                                                                   \
    CUKERN_FETCH(bits, T, fetch_add, __atomic_fetch_add, sum, 0)                        \
    CUKERN_FETCH(bits, T, fetch_sub, __atomic_fetch_sub, sum, 0)                        \
    CUKERN_FETCH(bits, T, fetch_and, __atomic_fetch_and, atomic, ~0)                    \
    CUKERN_FETCH(bits, T, fetch_or, __atomic_fetch_or, atomic, 0)                       \
    CUKERN_FETCH(bits, T, fetch_xor, __atomic_fetch_xor, atomic, 0)                     \
    HOOK int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value, int order, int) { \
        swap_value<bits / 8>((uintptr_t)at, order, *expected != value, HERE);              \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    }                                                                                   \
    HOOK int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T value, int, int) {   \
        change_value<bits / 8, sum>((uintptr_t)at, HERE); /* of exchange_by */          \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    }                                                                                   \
    HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int order, int) {  \
        swap_value<bits / 8>((uintptr_t)at, order, expected != value, HERE);               \
        __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
        return expected;                                                                \
    }
CUKERN_ATOMICS(8, unsigned char)
CUKERN_ATOMICS(16, unsigned short)
CUKERN_ATOMICS(32, unsigned)
CUKERN_ATOMICS(64, unsigned long long)
#undef CUKERN_ATOMICS
#undef CUKERN_FETCH

HOOK void __tsan_atomic_thread_fence(int) { fence(false); }
HOOK void __tsan_atomic_signal_fence(int order) {
    if (order == __ATOMIC_SEQ_CST) return fence(true);  // __threadfence_block
    const bool begins = order != __ATOMIC_RELEASE;
    if (!begins || order == __ATOMIC_ACQUIRE) s.of_block[s.me] = begins;   // cukern::OfBlock
    if (!begins || order == __ATOMIC_ACQ_REL) s.is_relaxed[s.me] = begins;  // cukern::Relaxed
}

// Copies of structs, and of memory, whose size is no single access's.
template <unsigned size>
static void access_part(uintptr_t& at, size_t& left, bool writes, uintptr_t pc) {
    for (; left >= size; at += size, left -= size) {
        if (writes) access<size, false, true, plain>(at, pc);
        else access<size, true, false, plain>(at, pc);
    }
}
static void access_range(uintptr_t at, size_t size, bool writes, uintptr_t pc) {
    if (s.cares == 1 && is_on_stack(at) && is_on_stack(at + size - 1)) return;
    if (s.suspect_count) settle_before(!writes);
    s.in_range = true;
    access_part<8>(at, size, writes, pc);
    access_part<4>(at, size, writes, pc);
    access_part<2>(at, size, writes, pc);
    access_part<1>(at, size, writes, pc);
    s.in_range = false;
}
HOOK void __tsan_read_range(void* at, size_t size) { access_range((uintptr_t)at, size, false, HERE); }
HOOK void __tsan_write_range(void* at, size_t size) { access_range((uintptr_t)at, size, true, HERE); }
static void* copied(void* to, const void* from, size_t size, uintptr_t pc) {
    access_range((uintptr_t)from, size, false, pc);
    access_range((uintptr_t)to, size, true, pc);
    return memmove(to, from, size);
}
// Shared memory that is filled with what unset memory holds is unset: a copy is on its way to it, whose place is kept.
static void* filled(void* to, int value, size_t size, uintptr_t pc) {
    const uintptr_t at = (uintptr_t)to;
    const bool is_on_its_way = s.on && value == unset && at - s.shared_arena < shared_span;
    access_range(at, size, true, pc);
    memset(to, is_on_its_way ? fill : value, size);
    if (s.suspect_count) settle_suspects();
    if (is_on_its_way) {
        Area* r = &s.shared[(at - s.shared_arena) >> shared_slot_shift];
        const size_t from = at - r->start, end = from + size;
        for (size_t cell = from >> r->shift; end <= r->bytes && cell << r->shift < end; ++cell) r->writes[cell] &= place_mask << place_shift;
    }
    return to;
}
// The linker gives clang's calls the second name: before version 15 they have none of their own.
#define CUKERN_COPIES(prefix)                                                                                           \
    HOOK void* prefix##_memcpy(void* to, const void* from, size_t size) { return copied(to, from, size, HERE); }        \
    HOOK void* prefix##_memmove(void* to, const void* from, size_t size) { return copied(to, from, size, HERE); }       \
    HOOK void* prefix##_memset(void* to, int value, size_t size) { return filled(to, value, size, HERE); }
CUKERN_COPIES(__tsan)
CUKERN_COPIES(__wrap)
#undef CUKERN_COPIES
HOOK void __tsan_init() {}
HOOK void __tsan_func_entry(void*) {}
HOOK void __tsan_func_exit() {}
HOOK void __tsan_vptr_read(void**) {}
HOOK void __tsan_vptr_update(void**, void*) {}
