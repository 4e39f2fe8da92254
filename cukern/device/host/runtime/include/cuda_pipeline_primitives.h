// Copies of a thread to shared memory, beside it, done as late as a wait allows.
#pragma once

namespace cukern {
inline void copy_and_fill(const Operation* own) {
    __builtin_memcpy((void*)own->words[0], own->source, own->words[1]);
    __builtin_memset((char*)own->words[0] + own->words[1], 0, own->words[2]);
}
}  // namespace cukern

__forceinline__ inline void __pipeline_memcpy_async(void* to, const void* from, size_t size, size_t zeros = 0, CUKERN_HERE) {
    if ((size != 4 && size != 8 && size != 16) || zeros > size)
        cukern::fault("__pipeline_memcpy_async copies 4, 8 or 16 bytes, of which zeros are some or all", file, line);
    if ((unsigned long long)to % size || (unsigned long long)from % size)
        cukern::fault("an address of __pipeline_memcpy_async is no multiple of its size", file, line);
    if (!cukern::runtime->is_shared(to, size)) cukern::fault("__pipeline_memcpy_async copies to shared memory", file, line);
    cukern::spoil(to, size);  // until it has come, anything may be there
    cukern::Operation own{cukern::copy_groups, 0, 0, from, cukern::copy_and_fill, "__pipeline_memcpy_async", file, line,
                          {(unsigned long long)to, size - zeros, zeros}, false, (unsigned)size};
    cukern::runtime->send(&own);
}
inline void __pipeline_commit() { cukern::runtime->commit(cukern::copy_groups); }
inline void __pipeline_wait_prior(size_t left) {
    cukern::runtime->finish(cukern::copy_groups, left < 8 ? (unsigned)left : 8, false);
}
