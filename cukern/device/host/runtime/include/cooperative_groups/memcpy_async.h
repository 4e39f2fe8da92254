// Copies by the members of a group, each of its part: to shared memory beside the threads, done as late as a wait allows.
#pragma once
#include <cooperative_groups.h>

namespace cukern {
inline void copy_part(const Operation* own) { __builtin_memcpy((void*)own->words[0], own->source, own->words[1]); }
}  // namespace cukern

namespace cooperative_groups {
namespace details {
// The calling thread's part of a copy.
template <class Group>
inline __attribute__((always_inline)) void copy_parts(const Group& group, char* to, const char* from, size_t bytes, const char* file, int line) {
    const size_t part = (bytes / group.num_threads() + 16) & ~(size_t)15, first = group.thread_rank() * part;
    if (first >= bytes) return;
    const size_t own_bytes = bytes - first < part ? bytes - first : part;
    if (!cukern::runtime->is_shared(to + first, own_bytes)) {
        __builtin_memcpy(to + first, from + first, own_bytes);
        return;
    }
    cukern::spoil(to + first, own_bytes);  // until it has come, anything may be there
    cukern::Operation own{cukern::copy_groups, 0, 0, from + first, cukern::copy_part, "memcpy_async", file, line,
                          {(unsigned long long)(to + first), own_bytes}, false, (unsigned)own_bytes};
    cukern::runtime->send(&own);
}
}  // namespace details
template <class Group, class T>
inline __attribute__((always_inline)) void memcpy_async(const Group& group, T* to, const T* from, size_t bytes, CUKERN_HERE) {
    details::copy_parts(group, (char*)to, (const char*)from, bytes, file, line);
    cukern::runtime->commit(cukern::copy_groups);
}
template <class Group>
inline void wait(const Group& group, CUKERN_HERE) {
    cukern::runtime->finish(cukern::copy_groups, 0, false);
    group.sync(file, line);
}
template <unsigned left, class Group>
inline void wait_prior(const Group& group, CUKERN_HERE) {
    cukern::runtime->finish(cukern::copy_groups, left, false);
    group.sync(file, line);
}
}  // namespace cooperative_groups
