// The convolution of nn/convolution/depthwise.cu for 16-bit floats whose pixels lie innermost, with whole planes of the image in
// shared memory (sm_90 and up): a warp has every so many-th plane, which is copied while it convolves those before. Its lanes own
// `items` columns each, and as many bands of rows as there are lanes for; they walk down the plane's rows.
// Launch: blocks of << warps >> warps. Shared, dynamic: `stages` planes of each warp.
<% include "linear/epilogue.cuh" %>
<% include "prelude/bulk_copy.cuh" %>
<% include "nn/convolution/depthwise.cuh" %>
constexpr int warps = << warps >>, stages = << stages >>, height = << height >>, columns = << columns >>, out_height = << out_height >>;
constexpr int across = columns / items, bands = 32 / across, each = (out_height + bands - 1) / bands;  // lanes of a row, and rows of one
constexpr int plane = height * columns, stage_size = << stage >>;  // elements, and those of a stage of whole lines
constexpr int taps = taps_y * taps_x;
constexpr bool transposed = << transposed | lower >>;
static_assert(columns % items == 0 && across <= 32 && taps <= 32 && width == 1, "lanes share a plane");

<< Sizes >>  // planes of all images; channels; top: the first row of the image that the first output's window reads

extern "C" __global__ void __launch_bounds__(32 * warps, << resident >>) << name >>(
    const T* x, const T* w, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* y, Sizes g, Steps steps)
{
    const Epilogue epilogue{<% for one in operands %>x<< one.k >>, <% endfor %><% for one in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ MBarrier full[warps][stages];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, apart = gridDim.x * warps;
    T* const ring = (T*)shared + warp * stages * stage_size;
    if (lane == 0) {
        for (int i = 0; i < stages; ++i) mbarrier_init(&full[warp][i], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    const auto copy_plane = [&](int number, int stage) {
        if (lane != 0 || number >= g.planes) return;
        mbarrier_arrive_expecting(&full[warp][stage], plane * int(sizeof(T)));
        copy_bulk(ring + stage * stage_size, x + (index)number * plane, plane * sizeof(T), &full[warp][stage]);
    };
    const int own = blockIdx.x * warps + warp, tap = minimum(lane, taps - 1);
    const int band = lane / across, column = lane % across * items, first = band * each;
    const int rows = band < bands ? minimum(each, out_height - first) : 0, top = first + g.top;
    // A lane reads the weight of one tap: windows are transposed where places in the image fall as taps rise.
    const auto weight = [&](int number) { return w[(minimum(number, g.planes - 1) % g.channels) * taps + (transposed ? taps - 1 - tap : tap)]; };
    for (int i = 0; i < stages; ++i) copy_plane(own + i * apart, i);
    T next = weight(own);
    for (int number = own, iteration = 0; number < g.planes; number += apart, ++iteration) {
        const int stage = iteration % stages;
        const T* const from = ring + stage * stage_size;
        const acc of_lane = cast<acc>(next);
        acc factors[taps_y][taps_x][1];
#pragma unroll
        for (int i = 0; i < taps; ++i) factors[i / taps_x][i % taps_x][0] = __shfl_sync(0xffffffff, of_lane, i);
        next = weight(number + apart);
        const Operands of = epilogue.load(number % g.channels, 0, 0);
        Out* const to = y + (index)number * out_height * columns + first * columns + column;
        mbarrier_wait(&full[warp][stage], iteration / stages % 2);
        WholeRow given;
        const auto load = [&](int r) {
            given.load(from + (top + r) * columns, column, columns, r < rows + taps_y - 1 && unsigned(top + r) < unsigned(height));
        };
        acc sums[taps_y][items][1] = {};
        if (rows > 0) load(0);
        for (int start = 0; rows > 0 && start < rows + taps_y - 1; start += taps_y) {
#pragma unroll
            for (int k = 0; k < taps_y; ++k) {
                const int r = start + k, result = r - (taps_y - 1);
                if (result >= rows) break;
                acc values[span][1];
                given.numbers(values);
                load(r + 1);
                add_row(sums, values, factors, k);
                acc(&done)[items][1] = sums[(k + 1) % taps_y];
                Pack<Out, items> all;
#pragma unroll
                for (int i = 0; i < items; ++i) all.at[i] = epilogue(done[i][0], of), done[i][0] = acc(0);
                if (result >= 0) store_pack(to + result * columns, all);
            }
        }
        __syncwarp();
        copy_plane(number + stages * apart, stage);
    }
}
