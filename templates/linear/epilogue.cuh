// The epilogue of a GEMM: an elementwise expression of a sum and of operands.
<% include "prelude/math.cuh" %>
using T = << elem >>;       // of the factors
using Out = << out >>;  // of D: float for sums of parts of the depth, which another kernel adds up
using index = << index >>;
// Strides of the epilogue's operands, in elements: through the batch, the rows and the columns.
<< Steps >>
// An element of each operand, in its type of computation.
struct Operands {
<% for x in operands %>
    << x.compute >> a<< x.k >>;
<% endfor %>
};
// Computes an element of D from a sum and the operands in its row and column.
struct Epilogue {
<% for x in operands %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>;
<% endfor %>
    Steps steps;

<% for x in operands %>
    __device__ __forceinline__ const << x.type >>* at<< x.k >>(int batch, int row, int column) const {
        return x<< x.k >> + (batch * steps.of[<< x.k - 1 >>][0]
            << {"zero": "", "unit": "+ row", "any": "+ row * steps.of[%d][1]" % (x.k - 1)}[x.row] >>
            << {"zero": "", "unit": "+ column", "any": "+ column * steps.of[%d][2]" % (x.k - 1)}[x.column] >>);
    }
<% endfor %>
    __device__ __forceinline__ Operands load(int batch, int row, int column) const {
        return {<% for x in operands %>cast< << x.compute >> >(*at<< x.k >>(batch, row, column)), <% endfor %>};
    }
    __device__ __forceinline__ Out operator()(<< acc >> made, const Operands& of) const {
        const << sum >> a0 = static_cast< << sum >> >(made);
<% for x in operands %>
        const << x.compute >> a<< x.k >> = of.a<< x.k >>;
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return cast<Out>(<< value >>);
    }
};
