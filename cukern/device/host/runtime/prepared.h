// A prepared launch as a method of Python's, which takes the leading values alone: several times as fast as by ctypes.
#pragma once
#include "python.h"

EXPORT int cukern_launch(Function* function, const unsigned char* packed);

// What is packed in place of the leading values, each of which takes 8 bytes.
struct Prepared {
    Function* function;
    long leading, bytes;
    char codes[16];  // of the leading values, as Python's module struct has them
    unsigned char packed[];
};

// Packs one value; false where Python's struct is to say what is wrong with it.
static bool pack_value(char code, void* value, unsigned char* to) {
    if (code == 'Q') {
        const unsigned long long made = python.as_unsigned(value);
        memcpy(to, &made, 8);
        return made + 1 != 0 || !python.error();
    }
    if (code == 'i' || code == 'q') {
        const long long made = python.as_signed(value);
        memcpy(to, &made, 8);
        return (made != -1 || !python.error()) && (code == 'q' || made == (int)made);
    }
    const double made = python.as_double(value);
    if (code == 'd') memcpy(to, &made, 8);
    const float narrow = (float)made;
    if (code == 'f') memcpy(to, &narrow, 4);
    return made != -1 || !python.error();
}

// Launches with what is packed, and leaves the rest to the second item of `self` where the status is not zero; false where
// that raised an error.
static bool launch_packed(void* self, const Prepared* prepared, const unsigned char* packed) {
    void* thread = python.save_thread();
    const int status = cukern_launch(prepared->function, packed);
    python.restore_thread(thread);
    if (status == 0) return true;
    void* reason = python.from_long(status);
    void* bytes = reason ? python.from_bytes(packed, prepared->bytes) : 0;
    void* made = bytes ? python.call_with(python.tuple_item(self, 1), reason, bytes, (void*)0) : 0;
    if (bytes) python.decrease(bytes);
    if (reason) python.decrease(reason);
    if (made) python.decrease(made);
    return made != 0;
}

// What is packed in place of value `i`.
static unsigned char* place_of(unsigned char* packed, long i) { return packed + sizeof(Header) + 8 * i; }

// `self`: a Prepared as bytes, a function of a status that is not zero and of what was packed, and one that launches with
// the same values and says what is wrong with them.
static void* launch_prepared(void* self, void* const* values, long count) {
    const Prepared* prepared = (const Prepared*)python.bytes_as_string(python.tuple_item(self, 0));
    unsigned char* packed = (unsigned char*)__builtin_alloca_with_align((size_t)prepared->bytes, 128);
    memcpy(packed, prepared->packed, (size_t)prepared->bytes);
    bool fits = count == prepared->leading;
    for (long i = 0; fits && i < count; ++i) fits = pack_value(prepared->codes[i], values[i], place_of(packed, i));
    if (!fits) {
        python.clear_error();
        return python.call_vector(python.tuple_item(self, 2), values, (size_t)count, 0);
    }
    if (!launch_packed(self, prepared, packed)) return 0;
    python.increase((void*)none_object);
    return (void*)none_object;
}

// The same of Arrays and numbers, with a new Array behind them, which it returns. `self` goes on with what make_array takes.
static void* launch_made(void* self, void* const* values, long count) {
    const Prepared* prepared = (const Prepared*)python.bytes_as_string(python.tuple_item(self, 0));
    const Places* places = (const Places*)python.bytes_as_string(python.tuple_item(self, 4));
    const void* type = type_of(python.tuple_item(self, 5));
    unsigned char* packed = (unsigned char*)__builtin_alloca_with_align((size_t)prepared->bytes, 128);
    memcpy(packed, prepared->packed, (size_t)prepared->bytes);
    bool fits = count + 1 == prepared->leading;
    for (long i = 0; fits && i < count; ++i) {
        void* value = type_of(values[i]) == type ? part_of(values[i], places->operand) : values[i];
        fits = value && pack_value(prepared->codes[i], value, place_of(packed, i));
    }
    if (!fits) {
        python.clear_error();
        return python.call_vector(python.tuple_item(self, 2), values, (size_t)count, 0);
    }
    void* made = make_array(self, 3);
    if (!made) return 0;
    memcpy(place_of(packed, count), &part_of(made, places->data[0]), 8);
    if (launch_packed(self, prepared, packed)) return made;
    python.decrease(made);
    return 0;
}

static const Method launch_method = {"launch", (void* (*)(void*, void*))launch_prepared, 0x0080, "Launch a kernel."};
static const Method make_method = {"make", (void* (*)(void*, void*))launch_made, 0x0080, "Launch a kernel that fills a new array."};
