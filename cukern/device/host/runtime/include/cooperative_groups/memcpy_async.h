// Copies by the members of a group, each of its part: to shared memory beside the threads, done as late as a wait allows.
#pragma once
#include <cooperative_groups.h>

namespace cukern {
inline void copy_part(const Operation* own) { __builtin_memcpy((void*)own->words[0], own->source, own->words[1]); }
}  // namespace cukern

namespace cooperative_groups {
template <class Group, class T>
inline void memcpy_async(const Group& group, T* to, const T* from, size_t bytes, CUKERN_HERE) {
    const size_t part = (bytes / group.num_threads() + 16) & ~(size_t)15, first = group.thread_rank() * part;
    if (first < bytes) {
        const size_t own_bytes = bytes - first < part ? bytes - first : part;
        char* const own_to = (char*)to + first;
        const char* const own_from = (const char*)from + first;
        if (cukern::runtime->is_shared(own_to, own_bytes)) {
            __builtin_memset(own_to, 0xff, own_bytes);  // until it has come, anything may be there
            cukern::Operation own{cukern::copy_groups, 0, 0, own_from, cukern::copy_part, "memcpy_async", file, line,
                                  {(unsigned long long)own_to, own_bytes}};
            cukern::runtime->send(&own);
        } else {
            __builtin_memcpy(own_to, own_from, own_bytes);
        }
    }
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
