// Copies beside the threads, and mbarriers, as inline PTX has them.
#pragma once

namespace cukern {
// The bytes that are read of a copy's: all, a number, or none where the source is to be ignored.
inline unsigned taken(unsigned size) { return size; }
template <class T>
inline unsigned taken(unsigned size, T bytes) {
    if constexpr (__is_same(T, bool)) return bytes ? 0 : size;
    else return (unsigned)bytes;
}
inline __attribute__((always_inline)) void copy_async_word(
    void* to, const void* from, unsigned size, unsigned bytes, const char* how, CUKERN_HERE) {
    if (how[1] == 'g' ? size != 16 : size != 4 && size != 8 && size != 16)
        fault("cp.async copies 4, 8 or 16 bytes, cp.async.cg 16", file, line);
    if (bytes > size) fault("cp.async reads more bytes than it copies", file, line);
    if ((unsigned long long)to % size || (unsigned long long)from % size)
        fault("an address of cp.async is no multiple of its size", file, line);
    if (!runtime->is_shared(to, size)) fault("cp.async copies to an address that is not in the block's shared memory", file, line);
    send_copy("cp.async", to, from, bytes, size, file, line);
}
inline void wait_for_all_copies() {
    runtime->commit(copy_groups);
    runtime->finish(copy_groups, 0, false);
}
// Counts as an arrival when the copies of this thread have come; it is counted beforehand unless it is expected.
inline void copies_arrive_at(MBarrier* barrier, bool is_expected, CUKERN_HERE) {
    wait_for_all_copies();
    if (is_expected) mbarrier_arrive(barrier, file, line);
}
inline void mbarrier_end(MBarrier* barrier, CUKERN_HERE) { require_own(barrier, file, line); }

// The phase that was current, by which its end is asked for.
inline unsigned long long arrived(MBarrier* barrier, unsigned bytes, unsigned count = 1, CUKERN_HERE) {
    require_mbarrier(barrier, file, line);
    begin_order();
    const unsigned long long phase = barrier->phase & 1;
    end_order();
    for (; count; --count, bytes = 0) arrive(barrier, bytes, file, line);
    return phase;
}
// The last arrival of a thread, or of several: later phases expect so many fewer.
inline unsigned long long dropped(MBarrier* barrier, unsigned count = 1, CUKERN_HERE) {
    const unsigned long long phase = arrived(barrier, 0, count, file, line);
    begin_order();
    barrier->expected = barrier->expected - count;
    if ((barrier->phase & 1) != phase) barrier->pending = barrier->pending - count;
    end_order();
    return phase;
}
inline void expect_bytes(MBarrier* barrier, unsigned bytes, CUKERN_HERE) {
    require_mbarrier(barrier, file, line);
    begin_order();
    barrier->bytes = barrier->bytes + (long long)bytes;
    end_order();
}
// Whether the phase of this parity is complete. The test that may wait does, and then says so only when it is asked again, as
// a GPU's may give up at any time; the other lets threads run.
inline bool is_complete(const char* name, MBarrier* barrier, unsigned parity, bool waits, CUKERN_HERE) {
    require_own(barrier, file, line);
    require_mbarrier(barrier, file, line);
    Wait wait{condition, line, file, 0, 0, 0, parity & 1, 0, name, nullptr, is_past, barrier};
    begin_order();
    const bool met = is_past(&wait);
    end_order();
    if (met) see_phase(barrier, parity);
    else if (waits) runtime->wait(&wait);
    else __nanosleep(0, file, line);
    return met;
}
}  // namespace cukern
