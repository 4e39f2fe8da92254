// Addresses of the matrices of a batch that no single step leads through, for products that read them from a table.
// In: the addresses of the first left, right and resulting matrix; sizes of the batch's axes, and the steps along them
// in bytes, all of the left operand first. Out: table[3 * count], the left addresses, the right ones, the results'.
// Launch: one thread per matrix, blocks along x. Shared memory: none.
<% set operands = ["a", "b", "out"] %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    unsigned long long* table, unsigned long long a, unsigned long long b, unsigned long long out,
<% for d in range(axes) %>
    int size_<< d >>,
<% endfor %>
<% for operand in operands %>
<% for d in range(axes) %>
    long long << operand >>_<< d >>,
<% endfor %>
<% endfor %>
    int count) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i >= count) return;
    int rest = i;
<% for d in range(axes - 1, -1, -1) %>
    int at_<< d >> = rest % size_<< d >>;
    rest /= size_<< d >>;
    a += at_<< d >> * a_<< d >>;
    b += at_<< d >> * b_<< d >>;
    out += at_<< d >> * out_<< d >>;
<% endfor %>
    table[i] = a;
    table[count + i] = b;
    table[2 * count + i] = out;
}
