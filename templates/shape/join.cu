// Rows of several arrays beside one another: y[target<k> * r + at<k> + c] = x<k>[source<k> * r + c] for r < rows<k>, c < columns<k>,
// counted in words, whatever they hold. Launch: blockIdx.y numbers the array, whose words the threads along x share. Shared: none.
<% include "lib/pack.cuh" %>
using Word = Words< << width >> >;
using index = << index >>;
<< Parts >>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% for k in range(count) %>
    const unsigned char* x<< k >>,
<% endfor %>
    unsigned char* y, Parts parts)
{
    const int k = blockIdx.y;
    const Word* x = (const Word*)x0;
<% for i in range(1, count) %>
    if (k == << i >>) x = (const Word*)x<< i >>;
<% endfor %>
    Word* into = (Word*)y + parts.at[k];
    const index columns = parts.columns[k], source = parts.source[k], target = parts.target[k], n = parts.rows[k] * columns;
    const index step = index(gridDim.x) * << block >>;
#pragma unroll 4
    for (index i = index(blockIdx.x) * << block >> + threadIdx.x; i < n; i += step) {
        const index row = i / columns, column = i - row * columns;
        into[row * target + column] = x[row * source + column];
    }
}
