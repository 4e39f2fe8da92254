// Reductions over the members of a group within a warp, in the order of a tree as on the GPU.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {
template <class Group, class T, class Op>
inline T reduce(const Group& group, T value, Op&& op, CUKERN_HERE) {
    const unsigned count = group.num_threads(), rank = group.thread_rank();
    unsigned width = 1;
    while (width < count) width *= 2;
    for (unsigned step = width / 2; step; step /= 2) {
        const T other = group.shfl_down(value, step, file, line);
        if (rank + step < count && rank < step) value = op(value, other);
    }
    return group.shfl(value, 0, file, line);
}
}  // namespace cooperative_groups
