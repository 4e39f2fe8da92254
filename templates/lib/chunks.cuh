<# For each pack that a thread has of its row, number `chunk`: the elements from `start` on. #>
<% macro each_chunk() %>
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
        const index start = (chunk * << threads >> + row_lane()) * << width >>;
<% if not exact %>
        if (start >= columns) continue;
<% endif %>
        << caller() | trim >>
    }
<% endmacro %>
