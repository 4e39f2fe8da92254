// D = epilogue(A @ B) as linear/product_tma.cu, for 16-bit floats, with a deferred epilogue: that of a tile runs while the next tile is
// multiplied. The registers hold the sums of two tiles, double-buffered. While a k-block of tile t + 1 is multiplied, the epilogue of
// 16 columns (a slice) of tile t runs beside the tensor cores. The registers of the slice are then set to what tile t + 2 begins with:
// the row that is added to the product first, if there is one.
// A matrix of D's shape and dtype (`mapped`) is loaded by TMA too, to where the parts of D will be.
// The epilogue of a block's last tile runs alone. Its parts that have no slot lie in a stage of the ring, which is free then, so that
// none of them waits for a store.
// Launch: blocks of three warpgroups. The first two share the rows of each tile.
// Shared, dynamic: the stages, then slots of each warpgroup for parts of 64 lines of D, or of half lines if a matrix comes to them, then a
// row of a tile in float for each warpgroup; 1024 bytes before for alignment.
<% include "linear/product_tma.cuh" %>
constexpr bool loads_matrix = << "true" if mapped else "false" >>;  // a matrix, to where parts of D will be
constexpr int mapped = << mapped - 1 if mapped else 0 >>;  // its index among the operands
constexpr int slices = tile_n / 16, of_part = part_line / 16;  // of a tile, and of a part
constexpr int all_parts = tile_n / part_line;
// Parts of the last tile that lie in a stage. With a matrix the last slot stays empty: its part would be asked for after the last k-block.
constexpr int spare_parts = all_parts - slots + loads_matrix;
static_assert(!ping_pong && !<< "true" if saves else "false" >>, "a warpgroup finishes a tile while it multiplies the next, and saves no sums");
static_assert(rows == 64 && sizeof(Out) == 2, "the registers do not suffice for more");
static_assert(all_parts % slots == 0, "a part has the same slot in each tile, as the wait for stores assumes");
static_assert(!loads_matrix || all_parts == 2 * slots, "the parity of a phase is known");
static_assert(2 * spare_parts * part_size <= stage_size, "they lie in one stage");
constexpr int early = slice_registers <= 6 ? 3 : slice_registers <= 8 ? 2 : 1;  // slices whose operands are prefetched

<% set parameters %>
<% for x in operands %><< "const __grid_constant__ TensorMap matrix" if x.k == mapped else "const %s* x%d" % (x.type, x.k) >>, <% endfor %><% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>
<% endset %>
<% set arguments %>
<% for x in operands %><< "nullptr" if x.k == mapped else "x%d" % x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>
<% endset %>
extern "C" __global__ void __launch_bounds__(threads, 1) __cluster_dims__(<< cluster >>, 1, 1) << name >>(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
    << parameters | trim >>
    const __grid_constant__ TensorMap d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<< arguments | trim >> steps};
    << "const TensorMap& matrix = d;  // there is none" if not mapped >>
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ MBarrier full[stages], empty[stages], all_loaded[loads_matrix ? 2 * slots : 1];
    const Ring ring(shared, full, empty);
    if (threadIdx.x == 256) {
        prefetch_map(a), prefetch_map(b), prefetch_map(d);
        if (loads_matrix) prefetch_map(matrix);
    }
    ring.open(all_loaded, loads_matrix ? 2 * slots : 0);

    // With each of the first k-blocks of a tile a slice of the one before is finished: k-blocks beyond the depth are zeros.
    const int k_blocks = maximum(divide_up(sizes.k, depth), slices), group = own_group();
    const auto load_part = [&](T* to, MBarrier* barrier, const Place& place, int i) {  // of the matrix
        copy_tile(to, matrix, {steps.of[mapped][0] ? place.batch : 0, place.m0, place.n0 + i * part_line}, barrier);
    };
    if (group == 2) {
        give_registers<24>();
        const Place first = ScheduledTile(0).coord_now(sizes);
        ring.await_open();
        if (threadIdx.x != 256) return;
        PipelineState at{0, 0};
        const int tiles = feed(ring, a, b, sizes, k_blocks, at, first);
        if constexpr (loads_matrix) {
            Place place = ScheduledTile(tiles - 1).place(sizes);
            mbarrier_wait(&ring.empty[at.stage], at.phase ^ 1);
            mbarrier_arrive_expecting(&ring.full[at.stage], 2 * spare_parts * part_size * sizeof(T));
            for (int x = 0; x < 2; ++x, place.m0 += rows)
                for (int i = 0; i < spare_parts; ++i)
                    load_part(ring.at(at.stage) + (x * spare_parts + i) * part_size, &ring.full[at.stage], place, all_parts - spare_parts + i);
            at.next();
        }
        ring.await_empty(at, loads_matrix ? stages - 1 : stages);  // the matrix's stage was empty
        return;
    }
    ring.await_open();
    take_registers<240>();
    T* const parts = ring.at(stages) + group * slots * part_size;
    Sums sums, others;
    Multiplication product(ring, rows * group);
    TileCoords tiles(sizes, 0);
    // The tile that is finished, the one that is multiplied, and the one after that; every block has at least one.
    Place done = tiles.at(0, rows * group), now = done, next = done;
    bool followed = ScheduledTile(1).there(sizes);  // whether there is a tile after the one that is multiplied

    // The row with which the sums of the next tile begin, in float, written by the first tile_n / 2 threads of the warpgroup.
    float* const first_sums = (float*)(ring.at(stages) + 2 * slots * part_size) + group * tile_n;
    AddedRow row;
    const auto begin_slice = [&](Sums& of, int i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            // Rows g and g + 8 begin with the same numbers. Volatile, so that both are loaded; else ptxas moves one's to the other.
            const unsigned long long two = *(const volatile unsigned long long*)(first_sums + 16 * i + j / 2 * 8 + threadIdx.x % 4 * 2);
            of[0][8 * i + 2 * j] = __uint_as_float((unsigned)two), of[0][8 * i + 2 * j + 1] = __uint_as_float((unsigned)(two >> 32));
        }
    };

    // Parts of the matrix are loaded to where those of D will be, once what was there has been stored: the first ones of a tile
    // during the epilogue of the tile before it.
    MBarrier* const own_loaded = in_register(all_loaded + (loads_matrix ? group * slots : 0));
    const auto load_next = [&](const Place& place, int i) {
        if (threadIdx.x % 128) return;
        wait_stores_read<0>();
        mbarrier_arrive_expecting(&own_loaded[i % slots], part_size * sizeof(T));
        load_part(parts + i % slots * part_size, &own_loaded[i % slots], place, i);
    };

    TileOperands of_tile(epilogue, sizes, 0, 0, 0);
    SliceOperands operands[early + 1] = {};
    unsigned words[loads_matrix ? slices : 1][4];  // of the matrix
    // The offset of a lane's chunk of a part's first slice, in bytes: chunks are swizzled as in a k-block, and as the map says.
    constexpr int chunks = part_line / chunk;
    const int own_line = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16;
    const int own_chunk = in_register(
        int((unsigned char*)parts - shared) + own_line * chunks * 16 + (own_line * chunks / 8 % chunks ^ threadIdx.x % 32 / 16) * 16);
    const auto finish_slice = [&](Sums& of, int i, bool last) {
        if (i + early < slices) of_tile.load(operands[(i + early) % (early + 1)], epilogue, i + early);
        const int own_part = i / of_part;
        const bool begins_part = i % of_part == 0;
        const auto part_at = [&](int x) {
            const int spare = x - (all_parts - spare_parts);
            if (last && spare >= 0) return ring.at(product.at.stage) + (group * spare_parts + spare) * part_size;
            return parts + x % slots * part_size;
        };
        const auto chunk_at = [&](int slice) {
            return shared + (part_at(slice / of_part) - parts) * int(sizeof(T)) + (own_chunk ^ slice % of_part * 32);
        };
        if (begins && !last && i == 0) row.store(first_sums);
        if (loads_matrix && last) {
#pragma unroll
            for (int x = 0; i == 0 && x < all_parts - spare_parts; ++x) mbarrier_wait(&own_loaded[x], 0);
            if (i == 0) mbarrier_wait(&ring.full[product.at.stage], product.at.phase);
        } else if (last && own_part >= slots) {
            if (i == slots * of_part) mbarrier_wait(&ring.empty[product.at.stage], product.at.phase ^ 1);
        } else if (begins_part) {
            if (loads_matrix) mbarrier_wait(&own_loaded[own_part % slots], own_part / slots);
            else if (threadIdx.x % 128 == 0) wait_stores_read<slots - 1>();
            if (!loads_matrix || (begins && i == 0)) barrier_sync(1 + group, 128);  // the part may be written again, and the row be read
        }
        SliceOperands& of_slice = operands[i % (early + 1)];
        if constexpr (loads_matrix) {
            const int together = last ? slices : of_part;
#pragma unroll
            for (int x = 0; i % together == 0 && x < together; ++x) load_matrices(words[x], chunk_at(i + x));
            of_slice.set_matrix(words[i % together]);
        }
        unsigned pairs[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            alignas(unsigned) Out two[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) two[e] = epilogue(of[0][8 * i + 2 * j + e], of_slice.of[j % 2][j / 2].at(e));
            pairs[j] = *(const unsigned*)two;
        }
        store_matrices(chunk_at(i), pairs);
        if (loads_matrix && !last && begins_part && own_part > 0) {
            const int part = own_part - 1 + slots;
            if (part < all_parts) load_next(done, part);
            else load_next(now, part - all_parts);
        }
        // The last slice's loads are before the barrier, after which other warps may write the next row.
        if (begins && !last && i == slices - 1) begin_slice(of, i);
        const int stored = last ? 4 : of_part;  // slices at a time
        if ((i + 1) % stored == 0) {
            fence_to_async();
            barrier_sync(1 + group, 128);
            if (threadIdx.x % 128 == 0) {
#pragma unroll
                for (int x = own_part + 1 - stored / of_part; x <= own_part; ++x)
                    if (done.m0 < sizes.m && done.n0 + x * part_line < sizes.n)
                        store_tile(d, {done.batch, done.m0, done.n0 + x * part_line}, part_at(x));
                commit_stores();
            }
        }
        if (begins && !last && i < slices - 1) begin_slice(of, i);  // after the fence, which would wait for the loads
    };

    // Ends the multiplications of the tile of an iteration, whose epilogue is next.
    const auto end_tile = [&](Sums& sums_of, int iteration) {
        done = now;
        of_tile = TileOperands(epilogue, sizes, done.batch, done.m0, done.n0);
#pragma unroll
        for (int i = 0; i < early; ++i) of_tile.load(operands[i], epilogue, i);
        if (loads_matrix && followed) load_next(done, slots - 1);
        now = next;
        if (ScheduledTile(iteration + 2).there(sizes)) next = tiles.at(iteration + 2, rows * group);
        row.load(epilogue, sizes, next.batch, next.n0);
        wgmma_wait<0>(sums_of[0]);
    };
    // Multiplies the tile of an iteration, during the epilogue of the one before it.
    const auto multiply_tile = [&](Sums& of, Sums& finished, int iteration) {
        followed = ScheduledTile(iteration + 1).there(sizes);
#pragma unroll
        for (int i = 0; i < slices; ++i) {
            if (i == 0) product.await();
            product.begin(of, !begins && i == 0);
            product.release(of, false);
            if (i + 1 < slices) product.await();  // ptxas leaves the slice's arithmetic behind this, and so behind the products
            finish_slice(finished, i, false);
        }
        for (int i = slices; i < k_blocks; ++i) product.multiply(of, false, false);
        end_tile(of, iteration);
    };
    const auto finish_last = [&](Sums& of) {
        product.free(product.current);  // as the last k-block too is waited for
#pragma unroll
        for (int i = 0; i < slices; ++i) finish_slice(of, i, true);
    };

    // Of the first tile there is only the product.
    if (followed) next = tiles.at(1, rows * group);
    AddedRow first_row;
    first_row.load(epilogue, sizes, now.batch, now.n0);
    row.load(epilogue, sizes, next.batch, next.n0);
    const auto begin_tile = [&](Sums& of, const AddedRow& from) {
        from.store(first_sums);
        barrier_sync(1 + group, 128);
#pragma unroll
        for (int i = 0; i < slices; ++i) begin_slice(of, i);
        barrier_sync(1 + group, 128);
    };
    if constexpr (begins) {
        begin_tile(sums, first_row);
        begin_tile(others, row);
    }
    product.multiply(sums, !begins, true);
    for (int i = 0; loads_matrix && i < slots - 1; ++i) load_next(now, i);
    for (int i = 1; i < k_blocks; ++i) product.multiply(sums, false, false);
    end_tile(sums, 0);
    for (int iteration = 1;; iteration += 2) {
        if (!ScheduledTile(iteration).there(sizes)) {
            finish_last(sums);
            break;
        }
        multiply_tile(others, sums, iteration);
        if (!ScheduledTile(iteration + 1).there(sizes)) {
            finish_last(others);
            break;
        }
        multiply_tile(sums, others, iteration + 1);
    }
    if (threadIdx.x % 128 == 0) wait_stores_read<0>();
}
