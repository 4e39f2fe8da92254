// Copies by the members of a group, who have done their part at once; `wait` is a barrier.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {
template <class Group, class T>
inline void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
    for (size_t i = group.thread_rank(); i < bytes; i += group.num_threads()) ((char*)to)[i] = ((const char*)from)[i];
}
template <class Group>
inline void wait(const Group& group, CUKERN_HERE) {
    group.sync(file, line);
}
template <unsigned left, class Group>
inline void wait_prior(const Group& group, CUKERN_HERE) {
    group.sync(file, line);
}
}  // namespace cooperative_groups
