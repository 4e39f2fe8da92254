// Pairs (a, b) of each row of x rotated by the angle of the row's position and of the pair:
// y = (a * cos - b * sin, a * sin + b * cos); `inverse` turns them back. Pair i < count is x[i], x[count + i], or with
// `interleaved` x[2 * i], x[2 * i + 1]; elements from 2 * count on are copied.
// x, y (outer, places, inner, features), contiguous. The angle at a place p is position * base^(-i / count), where the position
// is `first` + p ("first") or positions[p] ("positions"); or cos and sin are given (places, count) ("tables").
// Launch: a thread owns a pack of `width` pairs, or two packs that are copied, at one place of `turn` of the outer * inner
// rows there, for which it computes the angle once. Shared: none.
<% include "prelude/math.cuh" %>
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
constexpr int block = << block >>, width = << width >>, turn = << turn >>;
constexpr int count = << count >>, features = << features >>;
constexpr bool interleaved = << interleaved | lower >>, inverse = << inverse | lower >>;
// Threads along a row: those with pairs, and those with what is copied.
constexpr int pairs = count / width, slots = pairs + (features - 2 * count + 2 * width - 1) / (2 * width);
using Held = Pack<T, width>;

<% if kind != "tables" %>
struct Angle {
    acc cosine, sine;
    // Less whole turns in double precision: far from 0 a float has no digits left for the angle.
    __device__ __forceinline__ Angle(double position, int pair) {
        const double turns = position * exp2(double(pair) * << slope >>) * << 0.15915494309189535 >>;
        const acc angle = acc((turns - floor(turns + 0.5)) * << 6.283185307179586 >>);
        cosine = cos(angle), sine = sin(angle);
    }
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, T* y, << {"first": "double first", "positions": "const %s* positions" % place, "tables": "const acc* cosines, const acc* sines"}[kind] >>,
    index outer, index places, index inner)
{
    const index repeats = outer * inner, stretches = divide_up(repeats, index(turn));
    const index thread = index(blockIdx.x) * block + threadIdx.x;
    const index slot = thread % slots, place = thread / slots % places, stretch = thread / slots / places;
    if (stretch >= stretches) return;
    const bool copied = slot >= pairs;
    const index one = copied ? 2 * count + (slot - pairs) * (2 * width) : slot * width * (interleaved ? 2 : 1);
    const index other = one + (copied || interleaved ? width : count);
    acc cosine[width], sine[width];
    for (int v = 0; v < width && !copied; ++v) {
        const int pair = int(slot) * width + v;
<% if kind == "tables" %>
        cosine[v] = cosines[place * count + pair], sine[v] = sines[place * count + pair];
<% else %>
        const Angle angle(<< "first + double(place)" if kind == "first" else "(double)positions[place]" >>, pair);
        cosine[v] = angle.cosine, sine[v] = angle.sine;
<% endif %>
        if (inverse) sine[v] = -sine[v];
    }
#pragma unroll 4
    for (int k = 0; k < turn; ++k) {
        const index repeat = k * stretches + stretch;
        if (repeat >= repeats) break;
        const index at = ((repeat / inner * places + place) * inner + repeat % inner) * features;
        Held held[2];
        held[0] = load_pack<width>(x + at + one);
        const bool second = other < features;
        if (second) held[1] = load_pack<width>(x + at + other);
        if (!copied) {
            acc in[2][width], out[2][width];
            unpack(held[0], in[0]), unpack(held[1], in[1]);
#pragma unroll
            for (int v = 0; v < width; ++v) {
                const int first = interleaved ? 2 * v : v, next = interleaved ? first + 1 : width + v;
                const acc a = in[first / width][first % width], b = in[next / width][next % width];
                out[first / width][first % width] = a * cosine[v] - b * sine[v];
                out[next / width][next % width] = a * sine[v] + b * cosine[v];
            }
            held[0] = packed<T>(out[0]), held[1] = packed<T>(out[1]);
        }
        store_pack(y + at + one, held[0]);
        if (second) store_pack(y + at + other, held[1]);
    }
}
