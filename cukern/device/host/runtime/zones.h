// Red zones: memory before and after the arrays that a user's kernel writes, which it must leave as it is.
//
// An array of more than `largest_copy` bytes that cukern has made lies between two. A smaller one is copied to
// between two for as long as the kernel runs. Larger memory of others has none.
#pragma once
#include "shared.h"

constexpr size_t largest_copy = 8192;
constexpr size_t front_bytes = 512;
constexpr size_t least_back_bytes = 1024;
constexpr size_t back_bytes = max_threads * 8 + 64;  // a whole block's overshoot
constexpr size_t slot_bytes = 32768;
constexpr unsigned max_guards = 16;
constexpr unsigned char zone_byte = 0xa5;

// The fields of an ndarray that NumPy's C API exposes, behind Python's object header.
struct ArrayFields {
    char* data;
    int axes;
    long* shape;
    long* strides;
    const void* base;
};

static const void* none_object;
static const void* array_type;
static size_t array_data_offset;

static const ArrayFields* fields_of(const void* object) {
    return (const ArrayFields*)((const char*)object + array_data_offset);
}

static bool is_array(const void* object) {
    return object && *(const void* const*)((const char*)object + array_data_offset - sizeof(void*)) == array_type;
}

// What memory with red zones begins with.
struct Zoned {
    unsigned long long check;
    char* data;
    size_t bytes;
};

static unsigned long long check_of(const Zoned* zoned) { return 0x9d5a3c71e8b6f243ull ^ (unsigned long long)zoned; }

static const Zoned* zoned_memory(const ArrayFields* array) {
    const void* owner = 0;
    while (is_array(array->base)) array = fields_of(owner = array->base);
    if (!owner || array->base || array->axes != 1 || (size_t)array->shape[0] < sizeof(Zoned)) return 0;
    const Zoned* zoned = (const Zoned*)array->data;
    return (uintptr_t)zoned % alignof(Zoned) == 0 && zoned->check == check_of(zoned) ? zoned : 0;
}

// Memory that a launch writes.
struct Guard {
    unsigned param;
    bool guarded;
    char *low, *high;  // between its zones
    char* original;    // what was copied there, or null
    size_t back;
    pthread_t owner;
    Guard* link;
};

struct Guards {
    unsigned count;
    Guard at[max_guards];
};

static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t guard_left = PTHREAD_COND_INITIALIZER;
static Guard* guards_in_use;
static int guard_waiters;

static char* origin(const Guard* guard) { return guard->original ? guard->original : guard->low; }

// Whether two launches must not run at once: one works on a copy of what the other writes.
static bool collide(const Guard* a, const Guard* b) {
    if (!a->original && !b->original) return false;
    return origin(a) < origin(b) + (b->high - b->low) && origin(b) < origin(a) + (a->high - a->low);
}

// Waits until the memory is free; false where that would be for ever.
static bool take_guards(Guards* guards) {
    if (!guards->count) return true;
    bool free = false;
    pthread_mutex_lock(&guard_lock);
    while (!free) {
        free = true;
        for (const Guard* other = guards_in_use; other && free; other = other->link)
            for (unsigned i = 0; i < guards->count && free; ++i) {
                if (!collide(&guards->at[i], other)) continue;
                if (pthread_equal(other->owner, pthread_self())) {
                    pthread_mutex_unlock(&guard_lock);
                    return false;
                }
                free = false;
            }
        if (free) break;
        ++guard_waiters;
        pthread_cond_wait(&guard_left, &guard_lock);
        --guard_waiters;
    }
    for (unsigned i = 0; i < guards->count; ++i) {
        guards->at[i].owner = pthread_self();
        guards->at[i].link = guards_in_use;
        guards_in_use = &guards->at[i];
    }
    pthread_mutex_unlock(&guard_lock);
    return true;
}

static void leave_guards(Guards* guards) {
    if (!guards->count) return;
    pthread_mutex_lock(&guard_lock);
    for (unsigned i = 0; i < guards->count; ++i) {
        Guard** at = &guards_in_use;
        while (*at != &guards->at[i]) at = &(*at)->link;
        *at = (*at)->link;
    }
    if (guard_waiters) pthread_cond_broadcast(&guard_left);
    pthread_mutex_unlock(&guard_lock);
}

// The memory that an array lies in, as a guard; whether it is all of it, in order.
static bool extent(const ArrayFields* array, unsigned itemsize, Guard* guard) {
    bool in_order = true;
    long expected = itemsize, low = 0, high = itemsize;
    for (int axis = array->axes - 1; axis >= 0; --axis) {
        const long size = array->shape[axis], stride = array->strides[axis];
        if (size == 0) high = low = 0;
        if (size == 0) break;
        if (size != 1 && stride != expected) in_order = false;
        expected *= size;
        (stride < 0 ? low : high) += (size - 1) * stride;
    }
    guard->low = array->data + low;
    guard->high = array->data + high;
    return in_order;
}

// Finds what is to be guarded among the arrays that the kernel writes.
static void plan_guards(Guards* guards, const Job* job, const unsigned char* objects, Worker* w) {
    const Function* function = job->function;
    const Dim block = job->launch.block;
    const size_t threads = (size_t)block.x * block.y * block.z;
    guards->count = 0;
    for (unsigned i = 0; i < function->param_count && guards->count < max_guards; ++i) {
        const Param* param = &function->params[i];
        if (!param->written) continue;
        const void* object;
        memcpy(&object, objects + param->offset, sizeof object);
        if (object == none_object) continue;
        const ArrayFields* array = fields_of(object);
        Guard* guard = &guards->at[guards->count];
        const bool in_order = extent(array, param->itemsize ? param->itemsize : 1, guard);
        if (guard->low == guard->high) continue;
        guard->param = i;
        guard->guarded = true;
        guard->original = 0;
        guard->back = threads * (param->itemsize ? param->itemsize : 16);
        if (guard->back < least_back_bytes) guard->back = least_back_bytes;
        if (guard->back > back_bytes) guard->back = back_bytes;
        const size_t bytes = guard->high - guard->low;
        if (in_order && param->kind == 1 && bytes <= largest_copy) {
            if (!w->copies && !(w->copies = map_guarded(guard_bytes, slot_bytes * max_guards, guard_bytes))) continue;
            guard->original = guard->low;
            // As far from the multiples of 128 as it is, and apart from the others in a cache's sets.
            guard->low = w->copies + slot_bytes * guards->count + 2048 + 384 * guards->count + ((uintptr_t)guard->original & 127);
            guard->high = guard->low + bytes;
        } else if (const Zoned* zoned = zoned_memory(array)) {
            guard->low = zoned->data;
            guard->high = zoned->data + zoned->bytes;
        } else {
            guard->guarded = false;
        }
        ++guards->count;
    }
}

static void set_zones(const Guards* guards, const Function* function, unsigned char* params) {
    for (unsigned i = 0; i < guards->count; ++i) {
        const Guard* guard = &guards->at[i];
        if (guard->original) {
            memcpy(guard->low, guard->original, guard->high - guard->low);
            memcpy(params + function->params[guard->param].offset, &guard->low, sizeof guard->low);
        }
        if (!guard->guarded) continue;
        memset(guard->low - front_bytes, zone_byte, front_bytes);
        memset(guard->high, zone_byte, guard->back);
    }
}

static void describe_zone(Text* text, const Guard* guard, const Param* param, const char* from, size_t bytes) {
    const char* last = from;
    for (const char* at = from; at < from + bytes; ++at)
        if ((unsigned char)*at != zone_byte) last = at;
    const bool behind = from == first_change(guard->high, guard->back, zone_byte);
    const long long size = param->itemsize ? param->itemsize : 1;
    append(text, "argument %s: the kernel wrote %s, %lld bytes from byte %lld on, where it has %lld (", param->name,
           behind ? "past its end" : "before it", (long long)(last - from + 1), (long long)(from - guard->low),
           (long long)(guard->high - guard->low));
    if (behind)
        append(text, "element %lld of %lld): a thread that has no element must write none, as after `if (i < n)`",
               (long long)(from - guard->low) / size, (long long)(guard->high - guard->low) / size);
    else append(text, "element %lld): an index is negative", -((long long)(guard->low - from) + size - 1) / size);
}

// Copies back what was written, and says in `text` what else was; whether there was anything.
static bool check_zones(const Guards* guards, const Function* function, Text* text) {
    bool found = false;
    for (unsigned i = 0; i < guards->count; ++i) {
        const Guard* guard = &guards->at[i];
        if (guard->original) memcpy(guard->original, guard->low, guard->high - guard->low);
        if (!guard->guarded || found) continue;
        const Param* param = &function->params[guard->param];
        const char* front = guard->low - front_bytes;
        if (const char* at = first_change(guard->high, guard->back, zone_byte))
            describe_zone(text, guard, param, at, guard->high + guard->back - at), found = true;
        else if (const char* before = first_change(front, front_bytes, zone_byte))
            describe_zone(text, guard, param, before, guard->low - before), found = true;
    }
    return found;
}
