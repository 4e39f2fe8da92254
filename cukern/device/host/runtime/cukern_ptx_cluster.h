// Addresses of other blocks of a cluster, as inline PTX has them.
#pragma once

namespace cukern {
inline unsigned long long in_block(unsigned long long own, unsigned rank, CUKERN_HERE) {
    return (unsigned long long)runtime->map_shared(shared_at(own), rank, file, line);
}
}  // namespace cukern
