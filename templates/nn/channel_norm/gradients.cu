// The parts that sums.cu leaves of a derivative, joined. For the channels of all instances:
// dbias[channel] = the sum of dy and dweight[channel] that of dy * n, with n = (x - mean) * rstd, where they are asked for;
// factors[channel] = (mean, a, b, c), by which dx = dy * a - (x - mean) * b - c. Without `moving`, mean and variance are
// constants, and b and c are 0. Without parts (pieces is 0) sums are 0.
// Launch: a block for each group of `together` channels. Shared, static: two numbers a thread.
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/reduce.cuh" %>
using acc = << acc >>;
using W = << param >>;
using G = << grad >>;
using index = << index >>;
constexpr int block = << block >>;
constexpr bool moving = << moving | lower >>;

struct Two {
    acc total, product;
};
extern "C" __global__ void __launch_bounds__(block) << name >>(
    const acc* parts, const acc* statistics, const W* weight, G* dweight, G* dbias, acc* factors, int pieces, int together, int channels,
    acc scale)
{
    allow_next_kernel();
    __shared__ Two shared[block];
    const index first = (index)blockIdx.x * together;
    const acc mean = statistics[(index)blockIdx.x * 2], rstd = statistics[(index)blockIdx.x * 2 + 1];
    Two joint{acc(0), acc(0)};
    for (int c = 0; c < together; ++c) {
        const acc* const own = parts + (first + c) * pieces * 2;
        Two total{acc(0), acc(0)};
        for (int i = threadIdx.x; i < pieces; i += block) total.total += own[2 * i], total.product += own[2 * i + 1];
        shared[threadIdx.x] = total;
        for (int half = block / 2; half > 0; half /= 2) {
            __syncthreads();
            if (int(threadIdx.x) < half) {
                shared[threadIdx.x].total += shared[threadIdx.x + half].total;
                shared[threadIdx.x].product += shared[threadIdx.x + half].product;
            }
        }
        __syncthreads();
        total = shared[0];
        __syncthreads();
        const acc of_weight = weight ? cast<acc>(weight[(first + c) % channels]) : acc(1);
        joint.total += total.total * of_weight, joint.product += total.product * of_weight;
        if (threadIdx.x == 0) {
            if (dbias) dbias[first + c] = cast<G>(total.total);
            if (dweight) dweight[first + c] = cast<G>(total.product * rstd);
            factors[(first + c) * 4] = mean, factors[(first + c) * 4 + 1] = rstd * of_weight;
        }
    }
    for (int c = threadIdx.x; c < together; c += block) {
        acc* const to = factors + (first + c) * 4;
        to[2] = moving ? rstd * rstd * rstd * joint.product * scale : acc(0), to[3] = moving ? rstd * joint.total * scale : acc(0);
    }
}
