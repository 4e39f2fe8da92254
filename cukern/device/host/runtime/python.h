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
};

static Python python;

// An array that is to be made; it takes red zones where it is too large to be copied at a launch.
struct Wanted {
    void* dtype;
    long bytes, zeroed, axes;
    long shape[];
};

// A method of Python's without arguments, whose self is a Wanted as bytes: a new ndarray.
static void* allocate(void* self, void*) {
    const Wanted* wanted = (const Wanted*)python.bytes_as_string(self);
    const size_t before = sizeof(Zoned) + front_bytes + 64;
    const long total = (long)(before + back_bytes) + wanted->bytes;
    python.increase(python.uint8);
    void* owner = wanted->zeroed ? python.new_zeros(1, &total, python.uint8, 0)
                                 : python.new_array(array_type, python.uint8, 1, &total, 0, 0, 0, 0);
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

// As Python declares a method.
struct Method {
    const char* name;
    void* (*function)(void*, void*);
    int flags;
    const char* text;
};

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
