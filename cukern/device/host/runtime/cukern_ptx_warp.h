// Shuffles that say whether their source is there, votes of being alike, and the choice of one lane, for inline PTX.
#pragma once

namespace cukern {
// `limits`: from bit 8 on the bits of a lane that name its segment, and below the last lane of a segment, or the first.
template <class To>
inline __attribute__((always_inline)) bool shuffled(
    Collective what, To& to, unsigned value, unsigned argument, unsigned limits, unsigned mask, CUKERN_HERE) {
    const unsigned width = 32 - (limits >> 8 & 31), lane = thread_rank() & 31, within = lane & (width - 1);
    argument &= 31;
    if ((limits & 31) != (what == warp_shuffle_up ? 0 : 31) || width & (width - 1))
        fault("inline PTX: shfl with limits that CUDA's functions do not give", file, line);
    out(to, shuffle(what, mask, value, (int)argument, (int)width, file, line));
    switch (what) {
        case warp_shuffle_up: return argument <= within;
        case warp_shuffle_down: return within + argument < width;
        case warp_shuffle_xor: return (lane ^ argument) <= (lane | (width - 1));
        default: return true;
    }
}
inline bool votes_alike(unsigned mask, bool vote, CUKERN_HERE) {
    const unsigned votes = __ballot_sync(mask, vote, file, line), members = __ballot_sync(mask, 1, file, line);
    return votes == 0 || votes == members;
}
// One lane of the mask, not the one that is guessed; `lane` is its number.
template <class To>
inline bool elected(To& lane, unsigned mask, CUKERN_HERE) {
    unsigned members = __ballot_sync(mask, 1, file, line);
    for (int left = __builtin_popcount(members) / 2; left; --left) members &= members - 1;
    const unsigned chosen = (unsigned)__builtin_ctz(members);
    out(lane, chosen);
    return (thread_rank() & 31) == chosen;
}
}  // namespace cukern
