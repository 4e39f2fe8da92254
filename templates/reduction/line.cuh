// The inputs along the inner reduced axis, at one position of the kept axes and one of the outer reduced axes.
struct Line {
<% for x in inputs %>
    Strided<const << x.type >>, Step::<< x.step >>, Step::<< x.column >>> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ Line(const Memory& memory, const Layout& layout, index row, index q, index first = 0) {
        index offset[inputs];
#pragma unroll
        for (int k = 0; k < inputs; ++k) offset[k] = first * layout.column[k];
        advance_kept(layout, offset, row);
        advance_outer(layout, offset, q);
<% for x in inputs %>
        x<< x.k >> = {memory.x<< x.k >>, offset[<< x.k >>], layout.step[<< x.k >>], layout.column[<< x.k >>]};
<% endfor %>
    }
    __device__ __forceinline__ T value(const Scalars& scalars, index r, index c = 0) const {
        return value_of(scalars<% for x in inputs %>, cast< << x.compute >> >(loaded(x<< x.k >>.at(r, c)))<% endfor %>);
    }
};
// The range of the reduced axes that a block reduces.
struct Piece {
    index q_first, q_end, r_first, r_end;

    __device__ __forceinline__ Piece(index outer, index inner, index outer_piece, index inner_piece) {
        const index inner_pieces = maximum(index(1), divide_up(inner, inner_piece));
        q_first = index(blockIdx.y) / inner_pieces * outer_piece;
        q_end = minimum(outer, q_first + outer_piece);
        r_first = index(blockIdx.y) % inner_pieces * inner_piece;
        r_end = minimum(inner, r_first + inner_piece);
    }
};
