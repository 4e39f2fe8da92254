// Barriers with numbers, and registers, as inline PTX has them.
#pragma once

namespace cukern {
inline void meet(unsigned number, unsigned threads = 0, CUKERN_HERE) {
    const unsigned all = blockDim.x * blockDim.y * blockDim.z;
    if (number == 0 && (threads == 0 || threads == all)) __syncthreads(file, line);
    else barrier_sync((int)number, (int)(threads ? threads : all), file, line);
}
// The threads that vote so, at the barrier of all threads of the block.
inline unsigned count_at(unsigned number, unsigned threads, bool vote, CUKERN_HERE) {
    if (number != 0 || threads != blockDim.x * blockDim.y * blockDim.z)
        fault("bar.red of some threads of a block, or at another barrier than 0, which the host does not have", file, line);
    return (unsigned)__syncthreads_count(vote, file, line);
}
inline unsigned count_at(unsigned number, bool vote, CUKERN_HERE) {
    return count_at(number, blockDim.x * blockDim.y * blockDim.z, vote, file, line);
}
inline void set_registers(const char* name, unsigned wanted, bool gives, CUKERN_HERE) {
    if (wanted < 24 || wanted > 256 || wanted % 8) fault("setmaxnreg takes a multiple of 8 in 24 to 256", file, line);
    change_registers(name, wanted, gives, file, line);
}
}  // namespace cukern
