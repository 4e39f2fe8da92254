// Undefined arithmetic, misaligned access and indices beyond an array's type, which the compiler tests (-fsanitize=...).
#pragma once
#include "access.h"

struct Location {
    const char* file;
    unsigned line, column;
};
struct TypeName {
    unsigned short kind, info;
    char name[1];
};
struct Overflow {
    Location at;
    const TypeName* type;
};
struct Shift {
    Location at;
    const TypeName *left, *right;
};
struct Index {
    Location at;
    const TypeName *array, *index;
};
struct Mismatch {
    Location at;
    const TypeName* type;
    unsigned char log_alignment, check_kind;
};

static long long integer(const TypeName* type, uintptr_t value) {
    const unsigned bits = 1u << (type->info >> 1);
    if (type->kind != 0) return 0;
    if (bits > 64) return (long long)*(const u64*)value;
    if (bits == 64 || !(type->info & 1)) return (long long)value;
    return (long long)((u64)value << (64 - bits)) >> (64 - bits);
}

__attribute__((format(printf, 4, 5))) static void found_undefined(Kind kind, const Location* at, uintptr_t pc, const char* format, ...) {
    if (!s.on) return;
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    found_text(kind, text, at->file, (int)at->line, (pc - s.base) & place_mask);
}

static void found_operation(const Overflow* data, const char* sign, uintptr_t a, uintptr_t b, uintptr_t pc) {
    found_undefined(overflow, &data->at, pc, "%lld %s %lld does not fit in %s", integer(data->type, a), sign,
                    integer(data->type, b), data->type->name);
}
HOOK void __ubsan_handle_add_overflow(const Overflow* data, uintptr_t a, uintptr_t b) { found_operation(data, "+", a, b, HERE); }
HOOK void __ubsan_handle_sub_overflow(const Overflow* data, uintptr_t a, uintptr_t b) { found_operation(data, "-", a, b, HERE); }
HOOK void __ubsan_handle_mul_overflow(const Overflow* data, uintptr_t a, uintptr_t b) { found_operation(data, "*", a, b, HERE); }
HOOK void __ubsan_handle_negate_overflow(const Overflow* data, uintptr_t a) {
    found_undefined(overflow, &data->at, HERE, "-(%lld) does not fit in %s", integer(data->type, a), data->type->name);
}
HOOK void __ubsan_handle_divrem_overflow(const Overflow* data, uintptr_t a, uintptr_t b) {
    const long long by = integer(data->type, b);
    if (by) found_undefined(overflow, &data->at, HERE, "%lld / %lld does not fit in %s", integer(data->type, a), by, data->type->name);
    else found_undefined(division, &data->at, HERE, "%lld is divided by zero", integer(data->type, a));
}
HOOK void __ubsan_handle_shift_out_of_bounds(const Shift* data, uintptr_t a, uintptr_t b) {
    found_undefined(bad_shift, &data->at, HERE, "%lld of type %s is shifted by %lld bits", integer(data->left, a),
                    data->left->name, integer(data->right, b));
}
HOOK void __ubsan_handle_out_of_bounds(const Index* data, uintptr_t index) {
    if (!s.on) return;
    const long long at = integer(data->index, index);
    found_undefined(out_of_bounds, &data->at, HERE, "index %lld of an array of type %s", at, data->array->name);
    // A local array lies among those of others: what is far from it may be anybody's.
    const char* size = strchr(data->array->name, '[');
    const long long count = size ? atoll(size + 1) : 0;
    if (at < -16 || at > count + 16) give_up(worker);
}
HOOK void __ubsan_handle_builtin_unreachable(const Location* at) {
    if (s.on) found_text(unreachable_code, "code is reached that cannot be", at->file, (int)at->line, (HERE - s.base) & place_mask);
    give_up(worker);
}
HOOK void __ubsan_handle_alignment_assumption(const void*, uintptr_t, uintptr_t, uintptr_t) {}  // of the headers' own
HOOK void __ubsan_handle_type_mismatch_v1(const Mismatch* data, uintptr_t at) {
    if (!s.on) return;
    const u64 place = (HERE - s.base) & place_mask;
    Area* r = 0;
    if (at - s.arena < s.arena_bytes) r = &s.global[(at - s.arena) >> s.slot_shift];
    else if (at - s.shared_arena < shared_span) r = &s.shared[(at - s.shared_arena) >> shared_slot_shift];
    if (!at) return;
    if (!(at & ((1ull << data->log_alignment) - 1))) {  // beyond a local array, by a pointer
        found_undefined(out_of_bounds, &data->at, HERE, "%s of type %s beyond the end of a local array", data->check_kind == 1 ? "a write" : "a read", data->type->name);
        return;
    }
    if (!is_new(misaligned, place, 0)) return;
    Report report = empty_report(misaligned, r, at, 0, side_here(place, false, plain));
    if (!report.file) report.file = data->at.file, report.line = (int)data->at.line;
    snprintf(report.text, sizeof report.text, "%s at an address that is no multiple of %u", data->type->name, 1u << data->log_alignment);
    add_report(report);
}
