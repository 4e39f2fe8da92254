// peak[r] = the largest element of row r; rest[r] = log of the sum of exponentials below it: the two are added only to a
// difference, as their sum would be rounded. parts[s] = the sum of peak[r] + rest[r] - x[r, targets[r]] over the rows of slot
// s, which are every `slots`-th. x (rows, columns) in C order, packs of `width` elements aligned; targets (rows): the classes,
// one out of range taken as the nearest; peak, rest (rows); parts (slots).
// Launch: block / threads slots a block. A thread reads `chunks` packs of a row before it computes, again and again until
// the row's end. Shared: the states of warps.
<% include "nn/cross_entropy/row.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, const Target* targets, acc* peak, acc* rest, acc* parts, index rows, index columns, index slots)
{
    const index slot = index(row_team()) * row_groups + row_group();
    acc part = acc(0);
    int phase = 0;
    // As many turns for all slots of a block; one that has no row does the last one again.
    for (index first = slot - row_group(); first < rows; first += slots) {
        const bool live = slot < slots && first + row_group() < rows;
        const index row = live ? first + row_group() : rows - 1;
        const T* const from = x + row * columns;
        const Target named = targets[row];
        RowState state = {limits<acc>::lowest(), acc(0)};
        for (index start = row_lane() * width; start < columns; start += chunks * threads * width)
            state = extended(state, from, start, columns);
        // Read after the row, as its place depends on a number that was read: the loads of the row would wait for that.
        const acc chosen = cast<acc>(from[index(maximum(minimum((long long)named, (long long)columns - 1), 0ll))]);
        state = row_total(state, phase);
        if (live && row_lane() == 0) {
            const acc own = log(state.sum);
            peak[row] = state.peak;
            rest[row] = own;
            part += state.peak - chosen + own;
        }
    }
    if (slot < slots && row_lane() == 0) parts[slot] = part;
    row_end();
}
