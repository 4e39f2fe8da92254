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
    return (made != -1 || !python.error()) && (code == 'd' || made - made != 0 || narrow - narrow == 0);
}

// `self`: a Prepared as bytes, a function of a status that is not zero and of what was packed, and one that launches with
// the same values and says what is wrong with them.
static void* launch_prepared(void* self, void* const* values, long count) {
    const Prepared* prepared = (const Prepared*)python.bytes_as_string(python.tuple_item(self, 0));
    unsigned char* packed = (unsigned char*)__builtin_alloca_with_align((size_t)prepared->bytes, 128);
    memcpy(packed, prepared->packed, (size_t)prepared->bytes);
    bool fits = count == prepared->leading;
    for (long i = 0; fits && i < count; ++i) fits = pack_value(prepared->codes[i], values[i], packed + sizeof(Header) + 8 * i);
    if (!fits) {
        python.clear_error();
        return python.call_vector(python.tuple_item(self, 2), values, (size_t)count, 0);
    }
    void* thread = python.save_thread();
    const int status = cukern_launch(prepared->function, packed);
    python.restore_thread(thread);
    if (status == 0) {
        python.increase((void*)none_object);
        return (void*)none_object;
    }
    void* reason = python.from_long(status);
    void* bytes = reason ? python.from_bytes(packed, prepared->bytes) : 0;
    void* made = bytes ? python.call_with(python.tuple_item(self, 1), reason, bytes, (void*)0) : 0;
    if (bytes) python.decrease(bytes);
    if (reason) python.decrease(reason);
    return made;
}

static const Method launch_method = {"launch", (void* (*)(void*, void*))launch_prepared, 0x0080, "Launch a kernel."};
