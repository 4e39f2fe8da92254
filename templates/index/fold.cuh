// Common to the stages of reduceat: how values of any type are combined, and a group of threads that combines rows
// first, ..., last - 1 of `inner` elements, from a column on.
<% include "prelude/math.cuh" %>
using index = << index >>;
// Of the elements, of the results, and in which they are combined.
using T = << elem >>;
using To = << result_type >>;
using acc = << acc >>;
constexpr int block = << block >>, across = << across >>, along = << along >>, fan = << fan >>;
// Whether inner is 1.
constexpr bool single = << "true" if single else "false" >>;

__device__ __forceinline__ acc join(acc a, acc b) {
    const acc << body[0].name >> = << body[0].code >>;
    return << "cast<acc>(cast<To>(%s))" % body[0].name if in_order else body[0].name >>;
}

// An element in the type of results, as it is combined; parts are already.
template <bool parts, typename Row>
__device__ __forceinline__ acc value_of(Row x) {
    if constexpr (parts) return x;
    else return cast<acc>(cast<To>(x));
}

<% include "index/fold_serial.cuh" if serial else "index/fold_group.cuh" %>
