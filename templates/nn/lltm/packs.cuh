// What is moved of the three gates of `pack` neighbouring units, in an array (batch, 3, state).
<% include "prelude/packs.cuh" %>
template <typename P>
struct Gates {
    Pack<P, pack> input, output, candidate;
};
template <typename P>
__device__ __forceinline__ Gates<P> load_gates(const P* from, index state) {
    return {load_pack<pack>(from), load_pack<pack>(from + state), load_pack<pack>(from + 2 * state)};
}
template <typename P>
__device__ __forceinline__ void store_gates(P* to, index state, const Gates<P>& gates) {
    store_pack(to, gates.input);
    store_pack(to + state, gates.output);
    store_pack(to + 2 * state, gates.candidate);
}
