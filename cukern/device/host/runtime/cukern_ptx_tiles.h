// Copies of tiles by tensor maps, as inline PTX has them: places innermost axis first.
#pragma once

namespace cukern {
// Of a place that the prelude wants outermost axis first.
template <class... At>
struct Place {
    int at[sizeof...(At)];
    explicit Place(At... innermost_first) {
        int i = sizeof...(At);
        ((at[--i] = (int)innermost_first), ...);
    }
};
template <class... At>
inline __attribute__((always_inline)) void copy_tile_at(Here here, void* to, void* barrier, unsigned blocks, const void* map, At... at) {
    const Place<At...> place(at...);
    if (blocks) copy_tile_multicast(to, *(const TensorMap*)map, place.at, (MBarrier*)barrier, blocks, here.file, here.line);
    else copy_tile(to, *(const TensorMap*)map, place.at, (MBarrier*)barrier, here.file, here.line);
}
template <class... At>
inline __attribute__((always_inline)) void store_tile_at(Here here, const void* from, const void* map, At... at) {
    const Place<At...> place(at...);
    store_tile(*(const TensorMap*)map, place.at, from, here.file, here.line);
}
}  // namespace cukern
