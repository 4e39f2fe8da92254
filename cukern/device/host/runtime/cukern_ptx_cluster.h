// Addresses of other blocks of a cluster, as inline PTX has them.
#pragma once

namespace cukern {
inline unsigned long long in_block(unsigned long long own, unsigned rank, CUKERN_HERE) {
    void* const there = runtime->map_shared(shared_at(own), rank, file, line);
    note_mapped(there);
    return (unsigned long long)there;
}
}  // namespace cukern
