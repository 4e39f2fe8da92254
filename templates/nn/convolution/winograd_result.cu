// Winograd's inverse transform: tiles A sum A^T of the partial sums of transforms, with an epilogue: an elementwise expression of
// each element and of operands that have one number a channel.
// Memory: y has any strides; what is read has one element of each transform behind another, for all tiles and channels.
// Launch: a thread for a tile of a channel, blocks along x. Shared: none.
<% include "linear/epilogue.cuh" %>
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "nn/convolution/winograd.cuh" %>

__device__ __forceinline__ void transform(const acc (&x)[points], acc (&y)[size]) {
<% for row in rows %>
    y[<< loop.index0 >>] = << row >>;
<% endfor %>
}

extern "C" __global__ void __launch_bounds__(block) << name >>(
    const T* x, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* y, Planes g, Steps steps)
{
    allow_next_kernel();
    const Epilogue epilogue{<% for one in operands %>x<< one.k >>, <% endfor %><% for one in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    const int thread = blockIdx.x * block + threadIdx.x;
    if (thread >= g.count) return;
    const Place place(g, thread);
    x += place.channel * g.channel_to + place.tile * g.tile_to;
    acc sums[points * points];
#pragma unroll
    for (int i = 0; i < points * points; ++i) sums[i] = cast<acc>(x[i * g.point]);
    for (int part = 1; part < g.parts; ++part) {
        x += g.part;
#pragma unroll
        for (int i = 0; i < points * points; ++i) sums[i] += cast<acc>(x[i * g.point]);
    }
    acc halves[points][size];  // A sum, by columns
#pragma unroll
    for (int j = 0; j < points; ++j) {
        acc column[points];
#pragma unroll
        for (int i = 0; i < points; ++i) column[i] = sums[i * points + j];
        transform(column, halves[j]);
    }
    const Operands operands = epilogue.load(0, 0, place.channel);
    const Corner corner(g, place);
    y += corner.plane + corner.top * g.row + corner.left * g.column;
#pragma unroll
    for (int i = 0; i < size; ++i) {
        acc row[points], result[size];
#pragma unroll
        for (int j = 0; j < points; ++j) row[j] = halves[j][i];
        transform(row, result);
        if (corner.top + i >= g.height) continue;
        Out* const to = y + i * g.row;
        if constexpr (packs) {
            Pack<Out, 4> some;
#pragma unroll
            for (int j = 0; j < 4; ++j) some.at[j] = epilogue(result[j], operands);
            store_pack(to, some);
        } else {
#pragma unroll
            for (int j = 0; j < size; ++j)
                if (corner.left + j < g.width) to[j * g.column] = epilogue(result[j], operands);
        }
    }
}
