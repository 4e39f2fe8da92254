// Scans over the members of a group within a warp.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {
template <class Group, class T, class Op>
inline T inclusive_scan(const Group& group, T value, Op&& op, CUKERN_HERE) {
    const unsigned count = group.num_threads(), rank = group.thread_rank();
    for (unsigned step = 1; step < count; step *= 2) {
        const T other = group.shfl_up(value, step, file, line);
        if (rank >= step) value = op(other, value);
    }
    return value;
}
template <class Group, class T>
inline T inclusive_scan(const Group& group, T value, CUKERN_HERE) {
    return inclusive_scan(group, value, plus<T>(), file, line);
}
// The first member has the value of T{}.
template <class Group, class T, class Op>
inline T exclusive_scan(const Group& group, T value, Op&& op, CUKERN_HERE) {
    const T before = group.shfl_up(inclusive_scan(group, value, op, file, line), 1, file, line);
    return group.thread_rank() ? before : T{};
}
template <class Group, class T>
inline T exclusive_scan(const Group& group, T value, CUKERN_HERE) {
    return exclusive_scan(group, value, plus<T>(), file, line);
}
}  // namespace cooperative_groups
