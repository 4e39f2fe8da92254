// Queries, keys and values of new positions: a bias is added; each head of queries and keys is divided by its root mean square
// and multiplied by a weight (QK norm); their first `rotary` features take a rotary position embedding. Queries go to `to`,
// keys and values behind those of a cache.
// q, k, v (batch * length, heads * features) in float, rows q_step, k_step and v_step apart; to (batch, heads, length,
// features), keys, values (batch, heads of keys, capacity, features) in C order; lengths (batch): the positions with the new
// ones; biases and weights: or null; table (positions, rotary / 2, 2): the cosine and sine of each pair's angle.
// Launch: a row for each position and head of q, k and v, of threads / block threads.
<% include "prelude/overlap.cuh" %>
<% include "generate/head.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const float* q, const float* k, const float* v, const float* q_bias, const float* k_bias, const float* v_bias,
    const float* q_weight, const float* k_weight, const float* table, const int* lengths, T* to, T* keys, T* values,
    long long q_step, long long k_step, long long v_step, int heads, int key_heads, int length, int capacity,
    long long rows, float eps)
{
    allow_next_kernel();
    wait_for_earlier_kernels();
    const int all = heads + 2 * key_heads;
    const long long given = (long long)row_team() * row_groups + row_group(), row = given < rows ? given : rows - 1;
    const long long token = row / all, batch = token / length;
    const int at = token % length, position = lengths[batch] - length + at;
    int head = row % all, phase = 0;
    // Which of q, k and v, and the index of the head in it.
    const int which = head < heads ? 0 : head < heads + key_heads ? 1 : 2;
    head -= which == 0 ? 0 : which == 1 ? heads : heads + key_heads;
    const float* const from = which == 0 ? q + token * q_step : which == 1 ? k + token * k_step : v + token * v_step;
    const float* const bias = which == 0 ? q_bias : which == 1 ? k_bias : v_bias;
    const float* const weight = which == 0 ? q_weight : which == 1 ? k_weight : nullptr;
    Head own;
    own.read(from + head * features, bias ? bias + head * features : nullptr);
    if (weight) own.normalize(weight, eps, phase);
    row_end();
    if (given >= rows || position < 0 || position >= capacity) return;
    Angles angles;
    angles.load(table + (long long)position * rotary);
    if (which < 2) own.rotate(angles);
    const long long cached = ((batch * key_heads + head) * capacity + position) * features;
    if (which == 0) own.write(to + ((batch * heads + head) * length + at) * features);
    else own.write((which == 1 ? keys : values) + cached);
}
