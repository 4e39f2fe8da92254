// What the runtime asks of Python and of NumPy: memory with red zones, values of a launch, and whether a signal wants the
// kernel to end.
#pragma once
#include "zones.h"

// Their functions and objects, as host.py finds them: no header of theirs is needed to compile this.
struct Python {
    const void* none;
    const void* array_type;
    void* uint8;
    unsigned long long object_header_bytes;
    const char* (*bytes_as_string)(void*);
    void (*increase)(void*);
    void (*decrease)(void*);
    int (*take_lock)();
    void (*release_lock)(int);
    int (*run_signal_handlers)();
    void (*fetch_error)(void**, void**, void**);
    void* (*new_array)(const void* type, void* dtype, int axes, const long* shape, const long* strides, void* data, int flags, void* from);
    void* (*new_zeros)(int axes, const long* shape, void* dtype, int fortran);
    int (*set_base)(void* array, void* base);
    void* (*tuple_item)(void* tuple, long place);
    unsigned long long (*as_unsigned)(void*);
    long long (*as_signed)(void*);
    double (*as_double)(void*);
    void* (*error)();
    void (*clear_error)();
    void* (*save_thread)();
    void (*restore_thread)(void*);
    void* (*from_long)(long);
    void* (*from_bytes)(const void*, long);
    void* (*call_with)(void* function, ...);
    void* (*call_vector)(void* function, void* const* values, size_t count, void* names);
    void* (*new_object)(void* type, long items);
    void* (*from_unsigned)(unsigned long long);
    int (*is_subtype)(const void* type, const void* of);
};

static Python python;

// An array that is to be made; it takes red zones where it is too large to be copied at a launch.
struct Wanted {
    void* dtype;
    long bytes, zeroed, axes;
    long shape[];
};

// The memory of large arrays, kept when they have gone: the system gives new memory page by page, each in 1 us. Python's
// lock guards it.
constexpr int most_kept = 16;
static void* kept[most_kept];  // ndarrays of bytes, in some of which arrays lie; the oldest first
static int kept_count;
static long least_kept, all_kept;  // bytes of one at least, and of all at most

static bool is_idle(const void* object) { return *(const unsigned*)object == 1; }  // the number of its references

static void drop_kept(int place) {
    python.decrease(kept[place]);
    memmove(kept + place, kept + place + 1, (--kept_count - place) * sizeof *kept);
}

// What is left of an array of about as many bytes, or null.
static void* kept_memory(long total) {
    for (int i = 0; i < kept_count; ++i) {
        const long bytes = fields_of(kept[i])->shape[0];
        if (!is_idle(kept[i]) || bytes < total || bytes > total + total / 8) continue;
        python.increase(kept[i]);
        return kept[i];
    }
    return 0;
}

// Drops the oldest, first of those in which no array lies, until so many bytes more may be kept. Others are forgotten: what
// lives long is not to take the room of what comes and goes.
static void leave_room(long total) {
    long bytes = total;
    for (int i = 0; i < kept_count; ++i) bytes += fields_of(kept[i])->shape[0];
    for (int idle = 1; idle >= 0; --idle) {
        for (int i = 0; i < kept_count && (bytes > all_kept || kept_count == most_kept);) {
            if (is_idle(kept[i]) == idle) {
                bytes -= fields_of(kept[i])->shape[0];
                drop_kept(i);
            } else {
                ++i;
            }
        }
    }
}

static void* new_bytes(long total, bool zeroed) {
    python.increase(python.uint8);
    return zeroed ? python.new_zeros(1, &total, python.uint8, 0)
                  : python.new_array(array_type, python.uint8, 1, &total, 0, 0, 0, 0);
}

static void* new_memory(long total, bool zeroed) {
    const bool keeps = !zeroed && total > least_kept && total <= all_kept && python.object_header_bytes == 16;
    if (void* owner = keeps ? kept_memory(total) : 0) return owner;
    if (keeps) leave_room(total);
    void* owner = new_bytes(total, zeroed);
    if (!owner && kept_count) {
        python.clear_error();
        leave_room(all_kept);
        owner = new_bytes(total, zeroed);
    }
    if (owner && keeps && kept_count < most_kept) {
        python.increase(owner);
        kept[kept_count++] = owner;
    }
    return owner;
}

// A method of Python's without arguments, whose self is a Wanted as bytes: a new ndarray.
static void* allocate(void* self, void*) {
    const Wanted* wanted = (const Wanted*)python.bytes_as_string(self);
    if (wanted->bytes <= (long)largest_copy) {
        python.increase(wanted->dtype);
        if (wanted->zeroed) return python.new_zeros((int)wanted->axes, wanted->shape, wanted->dtype, 0);
        return python.new_array(array_type, wanted->dtype, (int)wanted->axes, wanted->shape, 0, 0, 0, 0);
    }
    const size_t before = sizeof(Zoned) + front_bytes + 64;
    const long total = (long)(before + back_bytes) + wanted->bytes;
    void* owner = new_memory(total, wanted->zeroed);
    if (!owner) return 0;
    Zoned* zoned = (Zoned*)fields_of(owner)->data;
    zoned->data = (char*)(((uintptr_t)zoned + before) & ~(uintptr_t)63);
    zoned->bytes = (size_t)wanted->bytes;
    zoned->check = check_of(zoned);
    const int writable_in_order = 0x0001 | 0x0100 | 0x0400;
    python.increase(wanted->dtype);
    void* made = python.new_array(array_type, wanted->dtype, (int)wanted->axes, wanted->shape, 0, zoned->data, writable_in_order, 0);
    if (!made) {
        python.decrease(owner);
    } else if (python.set_base(made, owner) < 0) {
        python.decrease(made);
        return 0;
    }
    return made;
}

// Where an Array has its parts: its ndarray, twice, the number that stands for it at a launch, its Storage, and what new ones
// of a layout share.
struct Places {
    long data[2], operand, storage, shared[4];
};

static void*& part_of(void* object, long place) { return *(void**)((char*)object + place); }
static void* type_of(const void* object) { return *(void* const*)((const char*)object + array_data_offset - sizeof(void*)); }

// A new Array, as `given` tells from `from` on: a Wanted and Places, both as bytes, an Array whose shared parts it takes, and
// the type of its Storage.
static void* make_array(void* given, long from) {
    const Places* places = (const Places*)python.bytes_as_string(python.tuple_item(given, from + 1));
    void* like = python.tuple_item(given, from + 2);
    void* data = allocate(python.tuple_item(given, from), 0);
    void* operand = data ? python.from_unsigned((unsigned long long)data) : 0;
    void* storage = operand ? python.new_object(python.tuple_item(given, from + 3), 0) : 0;
    void* made = storage ? python.new_object(type_of(like), 0) : 0;
    if (!made) {
        void* const parts[] = {data, operand, storage};
        for (void* part : parts)
            if (part) python.decrease(part);
        return 0;
    }
    python.increase(data);
    part_of(made, places->data[0]) = part_of(made, places->data[1]) = data;
    part_of(made, places->operand) = operand;
    part_of(made, places->storage) = storage;
    for (const long place : places->shared) python.increase(part_of(made, place) = part_of(like, place));
    return made;
}

// A method of Python's without arguments, whose self is what make_array takes.
static void* make_new(void* self, void*) { return make_array(self, 0); }

// As Python declares a method.
struct Method {
    const char* name;
    void* (*function)(void*, void*);
    int flags;
    const char* text;
};

static const Method new_method = {"new", make_new, 0x0004, "A new array."};
static const Method allocate_method = {"allocate", allocate, 0x0004, "A new ndarray."};

static void start_python(const Python* given) {
    python = *given;
    none_object = python.none;
    array_type = python.array_type;
    array_data_offset = python.object_header_bytes;
}

static thread_local void* raised_error[3] __attribute__((tls_model("initial-exec")));

// Lets Python run the handlers of the signals that came; true if one of them raised an error, which is kept.
static bool signal_raised() {
    const int state = python.take_lock();
    const bool raised = python.run_signal_handlers() != 0;
    if (raised) python.fetch_error(&raised_error[0], &raised_error[1], &raised_error[2]);
    python.release_lock(state);
    return raised;
}
