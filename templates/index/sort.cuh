// What the stages of a stable merge sort share: keys, the bits of the elements as integers, in their order.
using K = << elem >>;
using O = << order >>;
using I = << index >>;
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>, tile = lanes * items;
