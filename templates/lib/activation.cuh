// An activation of a value, or what its derivative makes of the value and of the cotangent of the result: the expression of a
// program, after prelude/math.cuh and prelude/over_pack.cuh.
__device__ __forceinline__ << activation >> activated(<% for k in range(arguments) %><< ", " if k >><< activation >> a<< k >><% endfor %>) {
<% for line in body %>
    const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
    return << value >>;
}
