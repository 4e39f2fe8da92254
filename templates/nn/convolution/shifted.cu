// Implicit GEMM of stride 1 on the tensor cores of sm_90a, by TMA and wgmma: output (pixels, filters) is the sum, over the window's
// taps, of image (pixels, channels) @ weights (channels, filters), with the image shifted by the tap. In shared memory, with rows
// of `pitch` pixels, padding included, a shift is another first line: each part of the image is loaded once for all taps. With an
// epilogue: an elementwise expression of each sum and of operands.
// image (images, height, width, channels), weights (filters, taps, channels) and output (images, height, width, filters) by maps,
// of 16-bit floats. What the maps fill with zeros are the padding, and channels beyond the last. If `planes`, output is
// (images, filters, height, width) instead, without a map.
// A warpgroup makes a band: `band` rows of one image, of which each is `pitch` pixels long, those beyond the image for nothing;
// if `apart`, 64 pixels of each, a segment of the image's rows, so that the halo takes no place among the products.
// Launch: blocks of three warpgroups, of which each makes every gridDim.x-th tile, two bands by tile_n filters. One thread of the
// last loads to two rings of stages: one of the bands' images for 64 channels, one of a tap's weights for them.
// A stage goes round: `empty` until it may be loaded, `full` when all its bytes have come, and empty again when all warps have
// multiplied it.
// An operand that has an element for each of the output (`elements`, its number, or 0) is loaded to where that will be.
// Shared, dynamic: the stages, then `parts` times 64 columns of the output for each warpgroup; 1024 bytes before for alignment.
<% include "linear/epilogue.cuh" %>
<% include "prelude/packs.cuh" %>
<% set wgmma_columns = [tile_n] %>
<% include "prelude/wgmma.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
constexpr int tile_n = << tile_n >>, halves = << halves >>;  // of 64 pixels, that a warpgroup multiplies
constexpr int pitch = << pitch >>, band = << band >>, taps_y = << taps_y >>, taps_x = << taps_x >>, taps = taps_y * taps_x;
// From a half's first line to that of the next, and from a row's first pixel to that of the next among a warpgroup's pixels.
constexpr int half_lines = << "pitch" if apart else 64 >>, slot = << 64 if apart else "pitch" >>;
constexpr int step_y = << step_y >>, step_x = << step_x >>;  // lines of the image from one tap to the next
constexpr int first_y = step_y < 0 ? -(taps_y - 1) * step_y : 0, first_x = step_x < 0 ? -(taps_x - 1) * step_x : 0;
constexpr int image_stages = << image_stages >>, weight_stages = << weight_stages >>;
constexpr int line = 64, part_n = tile_n < line ? tile_n : line;  // elements of 128 bytes, and the filters that are stored at a time
constexpr int loaded_lines = << loaded_lines >>, lines = << lines >>;  // of a band: lines that are loaded, and those in shared memory
constexpr int image_stage = 2 * lines * line, weight_stage = tile_n * line;
// Of planes: columns, elements of an access, and those of a plane in shared memory, where no two lanes meet in a bank.
constexpr int width = << width >>, access = << access >>, plane_size = halves * 64 + 8;
constexpr int part_size = << "plane_size" if planes else "halves * 64" >> * line, parts = << parts >>;
constexpr bool loads = << "true" if elements else "false" >>;  // an operand, to where parts of the output will be

// All bands, those of an image, tiles across, filters, and k-blocks of 64 channels; the first line that a band's windows read; rows of
// the output, and segments of one.
<< Sizes >>
// A tap's number among those of the weights, of which the window has every << each_y >>th row from << tap_y >> on, and so along columns.
__device__ __forceinline__ int of_weights_taps(int tap) {
    return (<< tap_y >> + tap / taps_x * << each_y >>) * << row >> + << tap_x >> + tap % taps_x * << each_x >>;
}
// Tile `turn` of this block.
struct ScheduledTile {
    int number;

    __device__ __forceinline__ explicit ScheduledTile(int iteration) : number(blockIdx.x + iteration * gridDim.x) {}
    __device__ __forceinline__ bool there(const Sizes& g) const { return number < (g.bands + 1) / 2 * g.tiles_n; }
    __device__ __forceinline__ int column(const Sizes& g) const { return number % g.tiles_n * tile_n; }
    // A warpgroup's band; that beyond the last is the last once more.
    __device__ __forceinline__ int own_band(const Sizes& g, int group) const {
        return minimum(number / g.tiles_n * 2 + group, g.bands - 1);
    }
};

// The operands of a filter but the one that is loaded, and that one.
__device__ __forceinline__ Operands load_operands(const Epilogue& epilogue, int image_number, int filter) {
    return {<% for x in operands %><< "0" if x.k == elements else "cast<%s>(*epilogue.at%d(image_number, 0, filter))" % (x.compute, x.k) >>, <% endfor %>};
}
__device__ __forceinline__ void set_element(Operands& of, T element) {
    << "of.a%d = cast<decltype(of.a%d)>(element);" % (elements, elements) if elements >>
}
<% set arguments %><% for x in operands %><< "nullptr" if x.k == elements else "x%d" % x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %><% endset %>

extern "C" __global__ void __launch_bounds__(384, 1) << name >>(
    const __grid_constant__ TensorMap image, const __grid_constant__ TensorMap weights,
    <% for x in operands %><< "const __grid_constant__ TensorMap elements" if x.k == elements else "const %s* x%d" % (x.type, x.k) >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "Out*" if planes else "const __grid_constant__ TensorMap" >> output, Sizes g, Steps steps)
{
    const Epilogue epilogue{<< arguments >>steps};
    << "const TensorMap& elements = image;  // there are none" if not elements >>
    extern __shared__ __align__(128) unsigned char shared[];
    T* const images = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T* const filters = images + image_stages * image_stage;
    __shared__ MBarrier full_image[image_stages], empty_image[image_stages], full[weight_stages], empty[weight_stages], full_parts[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * loads; ++i) mbarrier_init(&full_parts[i], 1);
        mbarrier_init_ring(full_image, empty_image, image_stages, 1, 8);
        mbarrier_init_ring(full, empty, weight_stages, 1, 8);
        fence_mbarrier_init();
    }
    __syncthreads();

    const int group = own_group();
    if (group == 2) {
        give_registers<24>();
        for (int iteration = 0, number = 0, k_block = 0; threadIdx.x == 256 && ScheduledTile(iteration).there(g); ++iteration) {
            const ScheduledTile tile(iteration);
            for (int i = 0; i < g.k_blocks; ++i, ++k_block) {
                const int of_image = k_block % image_stages;
                mbarrier_wait(&empty_image[of_image], k_block / image_stages % 2 ^ 1);
                mbarrier_arrive_expecting(&full_image[of_image], 2 * loaded_lines * line * int(sizeof(T)));
                for (int k = 0; k < 2; ++k) {
                    const int own = tile.own_band(g, k), within = own % g.of_image;
                    const int row = within / g.segments * band, pixel = within % g.segments * 64;
                    copy_tile(images + of_image * image_stage + k * lines * line, image,
                              {own / g.of_image, row + g.base_y, pixel + g.base_x, i * line}, &full_image[of_image]);
                }
                for (int tap = 0; tap < taps; ++tap, ++number) {
                    const int stage = number % weight_stages;
                    mbarrier_wait(&empty[stage], number / weight_stages % 2 ^ 1);
                    mbarrier_arrive_expecting(&full[stage], weight_stage * int(sizeof(T)));
                    copy_tile(filters + stage * weight_stage, weights, {tile.column(g), of_weights_taps(tap), i * line}, &full[stage]);
                }
            }
        }
        return;
    }
    take_registers<240>();
    const int warp = threadIdx.x % 128 / 32, row = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    T* const own_parts = filters + weight_stages * weight_stage + group * parts * part_size;
    float sums[halves][tile_n / 2];
    for (int iteration = 0, number = 0, k_block = 0; ScheduledTile(iteration).there(g); ++iteration) {
        const ScheduledTile tile(iteration);
        const int last = tile.own_band(g, group), column = tile.column(g), image_number = last / g.of_image;
        const int within = last % g.of_image, first_row = within / g.segments * band, first_pixel = within % g.segments * 64;
        if (loads && threadIdx.x % 128 == 0) {
            wait_stores_read<0>();  // the parts may be written again
            mbarrier_arrive_expecting(&full_parts[group], parts * band * slot * line * int(sizeof(T)));
            for (int i = 0; i < parts; ++i)
                copy_tile(own_parts + i * part_size, elements, {image_number, first_row, first_pixel, column + i * line}, &full_parts[group]);
        }
        for (int i = 0; i < g.k_blocks; ++i, ++k_block) {
            const int of_image = k_block % image_stages;
            T* const own = images + of_image * image_stage + group * lines * line;
            mbarrier_wait(&full_image[of_image], k_block / image_stages % 2);
            for (int tap = 0; tap < taps; ++tap, ++number) {
                const int stage = number % weight_stages;
                const int shift = (first_y + tap / taps_x * step_y) * pitch + first_x + tap % taps_x * step_x;
                mbarrier_wait(&full[stage], number / weight_stages % 2);
                wgmma_fence();
#pragma unroll
                for (int x = 0; x < halves; ++x) {
                    const SharedMatrix left(own + (half_lines * x + shift) * line, 16, 1024);
                    wgmma_line<T, tile_n, true, true>(sums[x], left, SharedMatrix(filters + stage * weight_stage, 16, 1024), i > 0 || tap > 0);
                }
                wgmma_commit();
                wgmma_wait<1>(sums[0]);  // the tap before this one has been multiplied
                if (i > 0 || tap > 0) mbarrier_arrive_warp(&empty[(number - 1) % weight_stages]);
                if (i > 0 && tap == 0) mbarrier_arrive_warp(&empty_image[(k_block - 1) % image_stages]);
            }
        }
#pragma unroll
        for (int x = 0; x < halves; ++x) wgmma_wait<0>(sums[x]);
        mbarrier_arrive_warp(&empty[(number - 1) % weight_stages]);
        mbarrier_arrive_warp(&empty_image[(k_block - 1) % image_stages]);
        const bool is = tile.number / g.tiles_n * 2 + group < g.bands;
#pragma unroll
        for (int x = 0; x < tile_n; x += part_n) {
            T* const part = own_parts + x / line % parts * part_size;
            Operands of[part_n / 8][2];
#pragma unroll
            for (int i = 0; i < part_n / 4; ++i)
                of[i / 2][i % 2] = load_operands(epilogue, image_number, minimum(column + x + i / 2 * 8 + 2 * q + i % 2, g.filters - 1));
            if constexpr (loads) {
                if (x == 0) mbarrier_wait(&full_parts[group], iteration % 2);
            } else {
                << "if (threadIdx.x % 128 == 0) wait_stores_read<0>();" if not planes >>
                barrier_sync(1 + group, 128);  // the part may be written again
            }
#pragma unroll
            for (int i = 0; i < part_n / 4 * halves; ++i) {
                const int half = i / (part_n / 4), eight = i % (part_n / 8), lower = i / (part_n / 8) % 2;
                const int at = 64 * half + 16 * warp + 8 * lower + row;
                alignas(4) Out two[2];
                if constexpr (loads) *(unsigned*)two = *(const unsigned*)(part + at * line + (eight ^ row) * 8 + 2 * q);
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    Operands own = of[eight][j];
                    if constexpr (loads) set_element(own, two[j]);
                    two[j] = epilogue(sums[half][x / 2 + eight * 4 + lower * 2 + j], own);
                }
<% if planes %>
                Out* const to = part + (eight * 8 + 2 * q) * plane_size + at / slot * width + at % slot;
                if (at % slot < width) to[0] = two[0], to[plane_size] = two[1];
<% else %>
                *(unsigned*)(part + at * line + (eight ^ row) * 8 + 2 * q) = *(const unsigned*)two;
<% endif %>
            }
<% if planes %>
            barrier_sync(1 + group, 128);
            constexpr int packs = (band * width + access - 1) / access;  // of a plane
            const int first = last % g.of_image * band, count = minimum(band, g.rows - first) * width;
            Out* const to = output + ((last / g.of_image * g.filters + column + x) * g.rows + first) * width;
            for (int i = threadIdx.x % 128; i < part_n * packs; i += 128) {
                const int filter = i / packs, along = i % packs * access;
                if (is && along < count && column + x + filter < g.filters)
                    store_pack(to + filter * g.rows * width + along, load_pack<access>(part + filter * plane_size + along));
            }
<% else %>
            fence_to_async();
            barrier_sync(1 + group, 128);
            if (threadIdx.x % 128 == 0) {
                if (is && column + x < g.filters)
                    store_tile(output, {image_number, first_row, first_pixel, column + x}, part);
                commit_stores();
            }
<% endif %>
        }
    }
    << "if (threadIdx.x % 128 == 0) wait_stores_read<0>();" if not planes >>
}
