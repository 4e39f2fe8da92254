## bounds: encoder forward, position row by token | grid=4 block=64 | i(12, 20), r(20*16), r(4*16), z(3*4*16), 3, 4, 16
__global__ void encoder_forward(const int* inp, const float* wte, const float* wpe, float* out, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int N = B * T * C;
    if (idx >= N) return;
    int bt = idx / C;
    int b = bt / T;
    int t = bt % T;
    int c = idx % C;
    int ix = inp[b * T + t];
    const float* wte_ix = wte + ix * C + c;
    const float* wpe_tc = wpe + ⟦t|||(b * T + t)⟧ * C + c;
    out[bt * C + c] = *wte_ix + *wpe_tc; //!
}
## bounds: encoder forward, guard lets one more through | grid=4 block=64 | i(12, 20), r(20*16), r(4*16), z(3*4*16), 3, 4, 16
__global__ void encoder_forward(const int* inp, const float* wte, const float* wpe, float* out, int B, int T, int C) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int N = B * T * C;
    if (idx ⟦>=|||>⟧ N) return;
    int bt = idx / C;
    int b = bt / T;
    int t = bt % T;
    int c = idx % C;
    int ix = inp[b * T + t]; //!
    const float* wte_ix = wte + ix * C + c;
    const float* wpe_tc = wpe + t * C + c;
    out[bt * C + c] = *wte_ix + *wpe_tc; //!
}
## race: layernorm backward, shared bias sum without atomics | grid=2 block=64 shared=320 | r(4*40), r(4*40), r(40), r(4), r(4), z(160), z(40), z(40), 4, 40
__global__ void layernorm_backward(const float* dout, const float* inp, const float* weight, const float* mean,
                                   const float* rstd, float* dinp, float* dweight, float* dbias, int N, int C) {
    extern __shared__ float shared[];
    float* dbias_shared = shared;
    float* dweight_shared = shared + C;
    for (int i = threadIdx.x; i < 2 * C; i += blockDim.x) shared[i] = 0.f;
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int idx = blockIdx.x * (blockDim.x / 32) + warp;
    if (idx < N) {
        const float* d = dout + idx * C;
        const float* x = inp + idx * C;
        float m = mean[idx], s = rstd[idx], dnorm_mean = 0.f, dnorm_norm_mean = 0.f;
        for (int i = lane; i < C; i += 32) {
            float dnorm = weight[i] * d[i];
            dnorm_mean += dnorm;
            dnorm_norm_mean += dnorm * (x[i] - m) * s;
        }
        for (int o = 16; o > 0; o /= 2) {
            dnorm_mean += __shfl_xor_sync(0xffffffff, dnorm_mean, o);
            dnorm_norm_mean += __shfl_xor_sync(0xffffffff, dnorm_norm_mean, o);
        }
        for (int i = lane; i < C; i += 32) {
            float norm = (x[i] - m) * s;
            ⟦atomicAdd(&dbias_shared[i], d[i])|||dbias_shared[i] += d[i]⟧; //!
            atomicAdd(&dweight_shared[i], norm * d[i]);
            dinp[idx * C + i] += (weight[i] * d[i] - dnorm_mean / C - norm * dnorm_norm_mean / C) * s;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        atomicAdd(&dbias[i], dbias_shared[i]);
        atomicAdd(&dweight[i], dweight_shared[i]);
    }
}
## unset: layernorm backward, half of the shared sums cleared | grid=2 block=64 shared=320 | r(4*40), r(4*40), r(40), r(4), r(4), z(160), z(40), z(40), 4, 40
__global__ void layernorm_backward(const float* dout, const float* inp, const float* weight, const float* mean,
                                   const float* rstd, float* dinp, float* dweight, float* dbias, int N, int C) {
    extern __shared__ float shared[];
    float* dbias_shared = shared;
    float* dweight_shared = shared + C;
    for (int i = threadIdx.x; i < ⟦2 * C|||C⟧; i += blockDim.x) shared[i] = 0.f;
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int idx = blockIdx.x * (blockDim.x / 32) + warp;
    if (idx < N) {
        const float* d = dout + idx * C;
        const float* x = inp + idx * C;
        float m = mean[idx], s = rstd[idx], dnorm_mean = 0.f, dnorm_norm_mean = 0.f;
        for (int i = lane; i < C; i += 32) {
            float dnorm = weight[i] * d[i];
            dnorm_mean += dnorm;
            dnorm_norm_mean += dnorm * (x[i] - m) * s;
        }
        for (int o = 16; o > 0; o /= 2) {
            dnorm_mean += __shfl_xor_sync(0xffffffff, dnorm_mean, o);
            dnorm_norm_mean += __shfl_xor_sync(0xffffffff, dnorm_norm_mean, o);
        }
        for (int i = lane; i < C; i += 32) {
            float norm = (x[i] - m) * s;
            atomicAdd(&dbias_shared[i], d[i]);
            atomicAdd(&dweight_shared[i], norm * d[i]); //!
            dinp[idx * C + i] += (weight[i] * d[i] - dnorm_mean / C - norm * dnorm_norm_mean / C) * s;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        atomicAdd(&dbias[i], dbias_shared[i]);
        atomicAdd(&dweight[i], dweight_shared[i]); //!
    }
}
## missing barrier: softmax forward by warps, the maximum is read at once | grid=3 block=128 | z(300), r(300), 100
__global__ void softmax_forward(float* out, const float* inp, int C) {
    __shared__ float maxvals[32], sumvals[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const float* x = inp + blockIdx.x * C;
    float maxval = -INFINITY;
    for (int i = threadIdx.x; i < C; i += blockDim.x) maxval = fmaxf(maxval, x[i]);
    for (int o = 16; o > 0; o /= 2) maxval = fmaxf(maxval, __shfl_xor_sync(0xffffffff, maxval, o));
    if (lane == 0) maxvals[warp] = maxval;
    __syncthreads();
    if (threadIdx.x == 0) {
        float val = maxvals[0];
        for (int i = 1; i < warps; i++) val = fmaxf(val, maxvals[i]);
        maxvals[0] = val; //!
    }
    ⟦__syncthreads();|||⟧
    float offset = maxvals[0]; //!
    float sum = 0.f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) sum += expf(x[i] - offset);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (lane == 0) sumvals[warp] = sum;
    __syncthreads();
    float total = 0.f;
    for (int i = 0; i < warps; i++) total += sumvals[i];
    for (int i = threadIdx.x; i < C; i += blockDim.x) out[blockIdx.x * C + i] = expf(x[i] - offset) / total;
}
## unset: softmax forward by warps, all 32 slots of the warps' sums | grid=3 block=128 | z(300), r(300), 100
__global__ void softmax_forward(float* out, const float* inp, int C) {
    __shared__ float maxvals[32], sumvals[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const float* x = inp + blockIdx.x * C;
    float maxval = -INFINITY;
    for (int i = threadIdx.x; i < C; i += blockDim.x) maxval = fmaxf(maxval, x[i]);
    for (int o = 16; o > 0; o /= 2) maxval = fmaxf(maxval, __shfl_xor_sync(0xffffffff, maxval, o));
    if (lane == 0) maxvals[warp] = maxval;
    __syncthreads();
    if (threadIdx.x == 0) {
        float val = maxvals[0];
        for (int i = 1; i < warps; i++) val = fmaxf(val, maxvals[i]);
        maxvals[0] = val;
    }
    __syncthreads();
    float offset = maxvals[0];
    float sum = 0.f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) sum += expf(x[i] - offset);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    if (lane == 0) sumvals[warp] = sum;
    __syncthreads();
    float total = 0.f;
    for (int i = 0; i < ⟦warps|||32⟧; i++) total += sumvals[i]; //!
    for (int i = threadIdx.x; i < C; i += blockDim.x) out[blockIdx.x * C + i] = expf(x[i] - offset) / total;
}
## missing barrier: matmul backward bias, partial column sums of the other warps | grid=2 block=128 shared=512 | z(40), r(6*40), 6, 40
__global__ void matmul_backward_bias(float* dbias, const float* dout, int BT, int OC) {
    extern __shared__ float smem[];
    int warp_id = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    int vstep = blockDim.x / 32;
    int col = blockIdx.x * 32 + lane_id;
    float dout_sum = 0.f;
    if (col < OC)
        for (int row = warp_id; row < BT; row += vstep) dout_sum += dout[row * OC + col];
    smem[lane_id + warp_id * 32] = dout_sum; //!
    ⟦__syncthreads();|||⟧
    dout_sum = 0.f;
    if (warp_id == 0 && col < OC) {
        for (int j = 0; j < vstep; j++) dout_sum += smem[lane_id + j * 32]; //!
        dbias[col] += dout_sum;
    }
}
## bounds: matmul backward bias, columns beyond the last | grid=2 block=128 shared=512 | z(40), r(6*40), 6, 40
__global__ void matmul_backward_bias(float* dbias, const float* dout, int BT, int OC) {
    extern __shared__ float smem[];
    int warp_id = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    int vstep = blockDim.x / 32;
    int col = blockIdx.x * 32 + lane_id;
    float dout_sum = 0.f;
    if (col < OC)
        for (int row = warp_id; row < BT; row += vstep) dout_sum += dout[row * OC + col];
    smem[lane_id + warp_id * 32] = dout_sum;
    __syncthreads();
    dout_sum = 0.f;
    if (warp_id == 0⟦ && col < OC|||⟧) {
        for (int j = 0; j < vstep; j++) dout_sum += smem[lane_id + j * 32];
        dbias[col] += dout_sum; //!
    }
}
## bounds: gelu in place by float4, packs counted as elements | grid=1 block=64 | r(250), 250
__device__ float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.f + tanhf(0.7978845608f * (x + cube)));
}
__global__ void gelu_inplace(float* x, int n) {
    float4* packs = (float4*)x;
    int packed = n / 4;
    int stride = blockDim.x * gridDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < ⟦packed|||n⟧; i += stride) {
        float4 v = packs[i]; //!
        v.x = gelu(v.x);
        v.y = gelu(v.y);
        v.z = gelu(v.z);
        v.w = gelu(v.w);
        packs[i] = v; //!
    }
    int rest = packed * 4 + first;
    if (first < n % 4) x[rest] = gelu(x[rest]);
}
## race: gelu in place by float4, tail begins among the packs | grid=1 block=64 | r(250), 250
__device__ float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.f + tanhf(0.7978845608f * (x + cube)));
}
__global__ void gelu_inplace(float* x, int n) {
    float4* packs = (float4*)x;
    int packed = n / 4;
    int stride = blockDim.x * gridDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < packed; i += stride) {
        float4 v = packs[i]; //!
        v.x = gelu(v.x);
        v.y = gelu(v.y);
        v.z = gelu(v.z);
        v.w = gelu(v.w);
        packs[i] = v; //!
    }
    int rest = ⟦packed * 4|||packed⟧ + first;
    if (first < n % 4) x[rest] = gelu(x[rest]); //!
}
## missing barrier: flash attention minimal, next keys loaded over those in use | grid=2 block=16 shared=2560 | r(512), r(512), r(512), 32, 8, 2, 2, 0.35, z(64), z(64) - 1e30, z(512)
__global__ void flash_forward(const float* Q, const float* K, const float* V, int N, int d, int Tc, int Tr,
                              float scale, float* l, float* m, float* O) {
    const int Bc = 16, Br = 16;
    int tx = threadIdx.x, qkv = blockIdx.x * N * d, lm = blockIdx.x * N;
    extern __shared__ float sram[];
    int tile = Bc * d;
    float *Qi = sram, *Kj = &sram[tile], *Vj = &sram[tile * 2], *S = &sram[tile * 3];
    for (int j = 0; j < Tc; j++) {
        for (int x = 0; x < d; x++) {
            Kj[tx * d + x] = K[qkv + tile * j + tx * d + x]; //!
            Vj[tx * d + x] = V[qkv + tile * j + tx * d + x]; //!
        }
        __syncthreads();
        for (int i = 0; i < Tr; i++) {
            for (int x = 0; x < d; x++) Qi[tx * d + x] = Q[qkv + tile * i + tx * d + x];
            float row_m_prev = m[lm + Br * i + tx], row_l_prev = l[lm + Br * i + tx], row_m = -INFINITY, row_l = 0;
            for (int y = 0; y < Bc; y++) {
                float sum = 0;
                for (int x = 0; x < d; x++) sum += Qi[tx * d + x] * Kj[y * d + x]; //!
                S[Bc * tx + y] = sum * scale;
                row_m = fmaxf(row_m, sum * scale);
            }
            for (int y = 0; y < Bc; y++) {
                S[Bc * tx + y] = __expf(S[Bc * tx + y] - row_m);
                row_l += S[Bc * tx + y];
            }
            float row_m_new = fmaxf(row_m_prev, row_m);
            float row_l_new = __expf(row_m_prev - row_m_new) * row_l_prev + __expf(row_m - row_m_new) * row_l;
            for (int x = 0; x < d; x++) {
                float pv = 0;
                for (int y = 0; y < Bc; y++) pv += S[Bc * tx + y] * Vj[y * d + x]; //!
                int o = qkv + tile * i + tx * d + x;
                O[o] = (row_l_prev * __expf(row_m_prev - row_m_new) * O[o] + __expf(row_m - row_m_new) * pv) / row_l_new;
            }
            m[lm + Br * i + tx] = row_m_new;
            l[lm + Br * i + tx] = row_l_new;
        }
        ⟦__syncthreads();|||⟧
    }
}
## race: flash attention minimal, scores laid over the values | grid=2 block=16 shared=2560 | r(512), r(512), r(512), 32, 8, 2, 2, 0.35, z(64), z(64) - 1e30, z(512)
__global__ void flash_forward(const float* Q, const float* K, const float* V, int N, int d, int Tc, int Tr,
                              float scale, float* l, float* m, float* O) {
    const int Bc = 16, Br = 16;
    int tx = threadIdx.x, qkv = blockIdx.x * N * d, lm = blockIdx.x * N;
    extern __shared__ float sram[];
    int tile = Bc * d;
    float *Qi = sram, *Kj = &sram[tile], *Vj = &sram[tile * 2], *S = &sram[tile * ⟦3|||2⟧];
    for (int j = 0; j < Tc; j++) {
        for (int x = 0; x < d; x++) {
            Kj[tx * d + x] = K[qkv + tile * j + tx * d + x];
            Vj[tx * d + x] = V[qkv + tile * j + tx * d + x];
        }
        __syncthreads();
        for (int i = 0; i < Tr; i++) {
            for (int x = 0; x < d; x++) Qi[tx * d + x] = Q[qkv + tile * i + tx * d + x];
            float row_m_prev = m[lm + Br * i + tx], row_l_prev = l[lm + Br * i + tx], row_m = -INFINITY, row_l = 0;
            for (int y = 0; y < Bc; y++) {
                float sum = 0;
                for (int x = 0; x < d; x++) sum += Qi[tx * d + x] * Kj[y * d + x];
                S[Bc * tx + y] = sum * scale; //!
                row_m = fmaxf(row_m, sum * scale);
            }
            for (int y = 0; y < Bc; y++) {
                S[Bc * tx + y] = __expf(S[Bc * tx + y] - row_m); //!
                row_l += S[Bc * tx + y];
            }
            float row_m_new = fmaxf(row_m_prev, row_m);
            float row_l_new = __expf(row_m_prev - row_m_new) * row_l_prev + __expf(row_m - row_m_new) * row_l;
            for (int x = 0; x < d; x++) {
                float pv = 0;
                for (int y = 0; y < Bc; y++) pv += S[Bc * tx + y] * Vj[y * d + x]; //!
                int o = qkv + tile * i + tx * d + x;
                O[o] = (row_l_prev * __expf(row_m_prev - row_m_new) * O[o] + __expf(row_m - row_m_new) * pv) / row_l_new;
            }
            m[lm + Br * i + tx] = row_m_new;
            l[lm + Br * i + tx] = row_l_new;
        }
        __syncthreads();
    }
}
## bounds: paged attention, block table read by columns | grid=2 block=32 | z(32), r(32), r(6*8*16), r(6*8*16), ck.asarray([0, 1, 2, 3, 4, 5, -1, -1], dtype="int32"), ck.asarray([30, 9], dtype="int32"), 4, 0.25
__global__ void paged_attention(float* out, const float* q, const float* k_cache, const float* v_cache,
                                const int* block_tables, const int* context_lens, int max_blocks, float scale) {
    const int HEAD = 16, PAGE = 8;
    __shared__ float logits[64];
    int seq = blockIdx.x, ctx = context_lens[seq];
    const int* table = block_tables + seq⟦ * max_blocks|||⟧;
    const int step = ⟦1|||gridDim.x⟧;
    for (int tok = threadIdx.x; tok < ctx; tok += blockDim.x) {
        const float* k = k_cache + (table[tok / PAGE * step] * PAGE + tok % PAGE) * HEAD;
        float dot = 0.f;
        for (int i = 0; i < HEAD; i++) dot += q[seq * HEAD + i] * k[i]; //!
        logits[tok] = dot * scale;
    }
    __syncthreads();
    float top = -INFINITY, sum = 0.f;
    for (int i = 0; i < ctx; i++) top = fmaxf(top, logits[i]);
    for (int i = 0; i < ctx; i++) sum += __expf(logits[i] - top);
    int tokens = ctx;
    for (int d = threadIdx.x; d < HEAD; d += blockDim.x) {
        float acc = 0.f;
        for (int tok = 0; tok < tokens; tok++) {
            int page = table[tok / PAGE * step];
            acc += __expf(logits[tok] - top) * v_cache[(page * PAGE + tok % PAGE) * HEAD + d]; //!
        }
        out[seq * HEAD + d] = acc / sum;
    }
}
## unset: paged attention, whole last page of the scores | grid=2 block=32 | z(32), r(32), r(6*8*16), r(6*8*16), ck.asarray([0, 1, 2, 3, 4, 5, -1, -1], dtype="int32"), ck.asarray([30, 9], dtype="int32"), 4, 0.25
__global__ void paged_attention(float* out, const float* q, const float* k_cache, const float* v_cache,
                                const int* block_tables, const int* context_lens, int max_blocks, float scale) {
    const int HEAD = 16, PAGE = 8;
    __shared__ float logits[64];
    int seq = blockIdx.x, ctx = context_lens[seq];
    const int* table = block_tables + seq * max_blocks;
    const int step = 1;
    for (int tok = threadIdx.x; tok < ctx; tok += blockDim.x) {
        const float* k = k_cache + (table[tok / PAGE * step] * PAGE + tok % PAGE) * HEAD;
        float dot = 0.f;
        for (int i = 0; i < HEAD; i++) dot += q[seq * HEAD + i] * k[i];
        logits[tok] = dot * scale;
    }
    __syncthreads();
    float top = -INFINITY, sum = 0.f;
    for (int i = 0; i < ctx; i++) top = fmaxf(top, logits[i]);
    for (int i = 0; i < ctx; i++) sum += __expf(logits[i] - top);
    int tokens = ⟦ctx|||(ctx + PAGE - 1) / PAGE * PAGE⟧;
    for (int d = threadIdx.x; d < HEAD; d += blockDim.x) {
        float acc = 0.f;
        for (int tok = 0; tok < tokens; tok++) {
            int page = table[tok / PAGE * step];
            acc += __expf(logits[tok] - top) * v_cache[(page * PAGE + tok % PAGE) * HEAD + d]; //!
        }
        out[seq * HEAD + d] = acc / sum;
    }
}
## race: rotary in place, each thread turns one half | grid=4 block=32 | r(4*2*16), r(4*8), r(4*8), 2, 16
__global__ void rotary(float* x, const float* cosines, const float* sines, int H, int D) {
    int t = blockIdx.x, half = D / 2;
    for (int i = threadIdx.x; i < H * ⟦half|||D⟧; i += blockDim.x) {
        int h = i / ⟦half|||D⟧, j = i % ⟦half|||D⟧;
        float* v = x + (t * H + h) * D;
        float c = cosines[t * half + j % half];
        float s = sines[t * half + j % half];
        ⟦float a = v[j], b = v[j + half];
        v[j] = a * c - b * s;
        v[j + half] = b * c + a * s;|||float turned = j < half ? -v[j + half] : v[j - half]; //!
        v[j] = v[j] * c + turned * s; //!⟧
    }
}
## bounds: rotary in place, table of angles by the whole head | grid=4 block=32 | r(4*2*16), r(4*8), r(4*8), 2, 16
__global__ void rotary(float* x, const float* cosines, const float* sines, int H, int D) {
    int t = blockIdx.x, half = D / 2;
    for (int i = threadIdx.x; i < H * half; i += blockDim.x) {
        int h = i / half, j = i % half;
        float* v = x + (t * H + h) * D;
        float c = cosines[t * ⟦half|||D⟧ + j % half]; //!
        float s = sines[t * half + j % half];
        float a = v[j], b = v[j + half];
        v[j] = a * c - b * s;
        v[j + half] = b * c + a * s;
    }
}
## race: moe gating top k, load of the experts counted plainly | grid=2 block=64 | r(4*4), z(8), z(8, "int32"), z(4, "int32"), 4, 4, 2
__global__ void topk_gating(const float* logits, float* weights, int* ids, int* load, int tokens, int E, int k) {
    int token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= tokens) return;
    float v = lane < E ? logits[token * E + lane] : -INFINITY;
    float top = v;
    for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float e = expf(v - top), sum = e;
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    float p = lane < E ? e / sum : -1.f;
    for (int j = 0; j < k; j++) {
        float best = p;
        int at = lane;
        for (int o = 16; o; o /= 2) {
            float other = __shfl_xor_sync(0xffffffff, best, o);
            int where = __shfl_xor_sync(0xffffffff, at, o);
            if (other > best || (other == best && where < at)) { best = other; at = where; }
        }
        if (lane == 0) {
            weights[token * k + j] = best;
            ids[token * k + j] = at;
            ⟦atomicAdd(&load[at], 1)|||load[at]++⟧; //!
        }
        if (lane == at) p = -1.f;
    }
}
## bounds: moe gating top k, lanes beyond the experts | grid=2 block=64 | r(4*4), z(8), z(8, "int32"), z(4, "int32"), 4, 4, 2
__global__ void topk_gating(const float* logits, float* weights, int* ids, int* load, int tokens, int E, int k) {
    int token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= tokens) return;
    float v = ⟦lane < E ? logits[token * E + lane] : -INFINITY|||logits[token * E + lane]⟧; //!
    float top = v;
    for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float e = expf(v - top), sum = e;
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
    float p = lane < E ? e / sum : -1.f;
    for (int j = 0; j < k; j++) {
        float best = p;
        int at = lane;
        for (int o = 16; o; o /= 2) {
            float other = __shfl_xor_sync(0xffffffff, best, o);
            int where = __shfl_xor_sync(0xffffffff, at, o);
            if (other > best || (other == best && where < at)) { best = other; at = where; }
        }
        if (lane == 0) {
            weights[token * k + j] = best;
            ids[token * k + j] = at;
            atomicAdd(&load[at], 1);
        }
        if (lane == at) p = -1.f;
    }
}
## missing barrier: moe align block size, counts of the other threads | grid=1 block=16 shared=544 | i(60, 8), z(88, "int32"), z(22, "int32"), z(1, "int32"), 4, 60
#define E 8
__global__ void moe_align(const int* topk_ids, int* sorted_ids, int* expert_ids, int* total, int block_size, int numel) {
    extern __shared__ int counts[];
    __shared__ int cumsum[E + 1];
    int tid = threadIdx.x, per = (numel + blockDim.x - 1) / blockDim.x, start = tid * per;
    for (int i = 0; i < E; i++) counts[(tid + 1) * E + i] = 0;
    for (int i = start; i < numel && i < start + per; i++) ++counts[(tid + 1) * E + topk_ids[i]]; //!
    ⟦__syncthreads();|||⟧
    if (tid < E) {
        counts[tid] = 0;
        for (int i = 1; i <= blockDim.x; i++) counts[i * E + tid] += counts[(i - 1) * E + tid]; //!
    }
    __syncthreads();
    if (tid == 0) {
        cumsum[0] = 0;
        for (int i = 1; i <= E; i++)
            cumsum[i] = cumsum[i - 1] + (counts[blockDim.x * E + i - 1] + block_size - 1) / block_size * block_size;
        *total = cumsum[E];
    }
    __syncthreads();
    if (tid < E)
        for (int i = cumsum[tid]; i < cumsum[tid + 1]; i += block_size) expert_ids[i / block_size] = tid;
    for (int i = start; i < numel && i < start + per; i++) {
        int e = topk_ids[i];
        sorted_ids[counts[tid * E + e] + cumsum[e]] = i;
        ++counts[tid * E + e];
    }
}
## bounds: moe align block size, running total needs one more | grid=1 block=16 shared=544 | i(60, 8), z(88, "int32"), z(22, "int32"), z(1, "int32"), 4, 60
#define E 8
__global__ void moe_align(const int* topk_ids, int* sorted_ids, int* expert_ids, int* total, int block_size, int numel) {
    extern __shared__ int counts[];
    __shared__ int cumsum[E⟦ + 1|||⟧];
    int tid = threadIdx.x, per = (numel + blockDim.x - 1) / blockDim.x, start = tid * per;
    for (int i = 0; i < E; i++) counts[(tid + 1) * E + i] = 0;
    for (int i = start; i < numel && i < start + per; i++) ++counts[(tid + 1) * E + topk_ids[i]];
    __syncthreads();
    if (tid < E) {
        counts[tid] = 0;
        for (int i = 1; i <= blockDim.x; i++) counts[i * E + tid] += counts[(i - 1) * E + tid];
    }
    __syncthreads();
    if (tid == 0) {
        cumsum[0] = 0;
        for (int i = 1; i <= E; i++)
            cumsum[i] = cumsum[i - 1] + (counts[blockDim.x * E + i - 1] + block_size - 1) / block_size * block_size; //!
        *total = cumsum[E]; //!
    }
    __syncthreads();
    if (tid < E)
        for (int i = cumsum[tid]; i < cumsum[tid + 1]; i += block_size) expert_ids[i / block_size] = tid; //!
    for (int i = start; i < numel && i < start + per; i++) {
        int e = topk_ids[i];
        sorted_ids[counts[tid * E + e] + cumsum[e]] = i;
        ++counts[tid * E + e];
    }
}
## missing barrier: radix select, histogram cleared while it is searched | grid=2 block=64 | i(200, 1 << 30).astype("uint32"), z(2, "uint32"), 100, 10
__global__ void radix_kth(const unsigned* keys, unsigned* out, int n, int k) {
    __shared__ int hist[256];
    __shared__ unsigned prefix;
    __shared__ int remain;
    const unsigned* row = keys + blockIdx.x * n;
    int tid = threadIdx.x;
    if (tid == 0) { prefix = 0; remain = k; }
    for (int pass = 24; pass >= 0; pass -= 8) {
        for (int b = tid; b < 256; b += blockDim.x) hist[b] = 0; //!
        __syncthreads();
        unsigned want = prefix, mask = pass == 24 ? 0u : ~0u << (pass + 8);
        for (int i = tid; i < n; i += blockDim.x)
            if ((row[i] & mask) == want) atomicAdd(&hist[(row[i] >> pass) & 255], 1);
        __syncthreads();
        if (tid == 0) {
            int r = remain, b = 255;
            while (b > 0 && hist[b] < r) r -= hist[b--]; //!
            prefix = want | (unsigned)b << pass;
            remain = r;
        }
        ⟦__syncthreads();|||⟧
    }
    if (tid == 0) out[blockIdx.x] = prefix;
}
## unset: radix select, bins beyond the block | grid=2 block=64 | i(200, 1 << 30).astype("uint32"), z(2, "uint32"), 100, 10
__global__ void radix_kth(const unsigned* keys, unsigned* out, int n, int k) {
    __shared__ int hist[256];
    __shared__ unsigned prefix;
    __shared__ int remain;
    const unsigned* row = keys + blockIdx.x * n;
    int tid = threadIdx.x;
    if (tid == 0) { prefix = 0; remain = k; }
    for (int pass = 24; pass >= 0; pass -= 8) {
        ⟦for (int b = tid; b < 256; b += blockDim.x) hist[b] = 0;|||if (tid < 256) hist[tid] = 0;⟧
        __syncthreads();
        unsigned want = prefix, mask = pass == 24 ? 0u : ~0u << (pass + 8);
        for (int i = tid; i < n; i += blockDim.x)
            if ((row[i] & mask) == want) atomicAdd(&hist[(row[i] >> pass) & 255], 1); //!
        __syncthreads();
        if (tid == 0) {
            int r = remain, b = 255;
            while (b > 0 && hist[b] < r) r -= hist[b--]; //!
            prefix = want | (unsigned)b << pass;
            remain = r;
        }
        __syncthreads();
    }
    if (tid == 0) out[blockIdx.x] = prefix;
}
## race: beam search reorder, cache reordered in place | grid=6 block=32 | r(2*6*40), i(6, 3), 0, 3, 40
__global__ void reorder_cache(float* cache, const int* parent, int step, int beams, int size) {
    int row = blockIdx.x, rows = gridDim.x, cur = step & 1;
    const float* src = cache + cur * rows * size;
    float* dst = cache + ⟦(cur ^ 1)|||cur⟧ * rows * size;
    int batch = row / beams;
    int from = batch * beams + parent[row];
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        float v = src[from * size + i]; //!
        dst[row * size + i] = v; //!
    }
}
## bounds: beam search reorder, parent counted from the row | grid=6 block=32 | r(2*6*40), i(6, 3), 0, 3, 40
__global__ void reorder_cache(float* cache, const int* parent, int step, int beams, int size) {
    int row = blockIdx.x, rows = gridDim.x, cur = step & 1;
    const float* src = cache + cur * rows * size;
    float* dst = cache + (cur ^ 1) * rows * size;
    int batch = row / beams;
    int from = ⟦batch|||row⟧ * beams + parent[row];
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        float v = src[from * size + i]; //!
        dst[row * size + i] = v;
    }
}
## missing barrier: int8 by rows, scale of the row before it is there | grid=3 block=64 | r(3*100) - 0.5, z(300, "int8"), z(3), 100
__global__ void quantize_rows(const float* x, signed char* q, float* scales, int C) {
    __shared__ float warp_max[2];
    __shared__ float scale;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* row = x + blockIdx.x * C;
    float m = 0.f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) m = fmaxf(m, fabsf(row[i]));
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    if (lane == 0) warp_max[warp] = m;
    __syncthreads();
    if (warp == 0) {
        m = lane < blockDim.x / 32 ? warp_max[lane] : 0.f;
        for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
        if (lane == 0) {
            scale = m / 127.f; //!
            scales[blockIdx.x] = scale;
        }
    }
    ⟦__syncthreads();|||⟧
    float inv = 1.f / scale; //!
    for (int i = threadIdx.x; i < C; i += blockDim.x) q[blockIdx.x * C + i] = (signed char)rintf(row[i] * inv);
}
## bounds: int8 by rows, lane reads the warps' maxima | grid=3 block=64 | r(3*100) - 0.5, z(300, "int8"), z(3), 100
__global__ void quantize_rows(const float* x, signed char* q, float* scales, int C) {
    __shared__ float warp_max[2];
    __shared__ float scale;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* row = x + blockIdx.x * C;
    float m = 0.f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) m = fmaxf(m, fabsf(row[i]));
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    if (lane == 0) warp_max[warp] = m;
    __syncthreads();
    if (warp == 0) {
        m = ⟦lane < blockDim.x / 32 ? warp_max[lane] : 0.f|||warp_max[lane]⟧; //!
        for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
        if (lane == 0) {
            scale = m / 127.f;
            scales[blockIdx.x] = scale;
        }
    }
    __syncthreads();
    float inv = 1.f / scale;
    for (int i = threadIdx.x; i < C; i += blockDim.x) q[blockIdx.x * C + i] = (signed char)rintf(row[i] * inv);
}
## race: int4 packed, a thread for each nibble | grid=2 block=64 | r(101), r(4), z(51, "uint8"), 101
__device__ unsigned q4(float x, float s) { return (unsigned)fminf(fmaxf(rintf(x / (s + 0.1f) * 7.f) + 8.f, 0.f), 15.f); }
__global__ void pack_int4(const float* x, const float* scale, unsigned char* packed, int n) {
    const int GROUP = 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned low = q4(x[i], scale[i / GROUP]);
    unsigned high = 0;
    if (i + 1 < n) high = q4(x[i + 1], scale[(i + 1) / GROUP]);
    ⟦if (i % 2 == 0) packed[i / 2] = low | high << 4;|||packed[i / 2] |= i % 2 ? low << 4 : low; //!⟧
}
## bounds: int4 packed, second nibble of an odd length | grid=2 block=64 | r(101), r(4), z(51, "uint8"), 101
__device__ unsigned q4(float x, float s) { return (unsigned)fminf(fmaxf(rintf(x / (s + 0.1f) * 7.f) + 8.f, 0.f), 15.f); }
__global__ void pack_int4(const float* x, const float* scale, unsigned char* packed, int n) {
    const int GROUP = 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned low = q4(x[i], scale[i / GROUP]);
    unsigned high = 0;
    ⟦if (i + 1 < n) |||⟧high = q4(x[i + 1], scale[(i + 1) / GROUP]); //!
    if (i % 2 == 0) packed[i / 2] = low | high << 4;
}
## bounds: bias and relu by float4, bias of the whole matrix | grid=3 block=32 | r(54), r(18), z(54), 18
__global__ void bias_relu(const float* x, const float* bias, float* y, int cols) {
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    int first = 0;
    if (cols % 4 == 0) {
        for (int c = threadIdx.x; c < cols / 4; c += blockDim.x) {
            float4 v = ((const float4*)in)[c];
            const float* b = bias + 4 * c;
            v.x = fmaxf(v.x + b[0], 0.f); v.y = fmaxf(v.y + b[1], 0.f);
            v.z = fmaxf(v.z + b[2], 0.f); v.w = fmaxf(v.w + b[3], 0.f);
            ((float4*)out)[c] = v;
        }
        first = cols / 4 * 4;
    }
    for (int c = first + threadIdx.x; c < cols; c += blockDim.x)
        out[c] = fmaxf(in[c] + bias[⟦c|||blockIdx.x * cols + c⟧], 0.f); //!
}
## misaligned: bias and relu by float4, rows that do not begin at 16 bytes | grid=3 block=32 | r(54), r(18), z(54), 18
__global__ void bias_relu(const float* x, const float* bias, float* y, int cols) {
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    int first = 0;
    if (⟦cols % 4 == 0|||cols >= 4⟧) {
        for (int c = threadIdx.x; c < cols / 4; c += blockDim.x) {
            float4 v = ((const float4*)in)[c]; //!
            const float* b = bias + 4 * c;
            v.x = fmaxf(v.x + b[0], 0.f); v.y = fmaxf(v.y + b[1], 0.f);
            v.z = fmaxf(v.z + b[2], 0.f); v.w = fmaxf(v.w + b[3], 0.f);
            ((float4*)out)[c] = v; //!
        }
        first = cols / 4 * 4;
    }
    for (int c = first + threadIdx.x; c < cols; c += blockDim.x)
        out[c] = fmaxf(in[c] + bias[c], 0.f);
}
## overflow: sharded embedding, row times width in int | grid=4 block=32 | ck.asarray([3000001, 3000003, 2999999, 3000006], dtype="int32"), r(8*1024), z(4*1024), 3000000, 8, 1024
__global__ void shard_embed(const int* tokens, const float* shard, float* out, int first, int rows, int C) {
    int token = tokens[blockIdx.x];
    if (token < first || token >= first + rows) {
        for (int c = threadIdx.x; c < C; c += blockDim.x) out[blockIdx.x * C + c] = 0.f;
        return;
    }
    long long base = (long long)first * C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        long long at = ⟦(long long)token * C|||token * C⟧ + c - base; //!
        out[blockIdx.x * C + c] = shard[at]; //!
    }
}
## bounds: sharded embedding, token of another shard | grid=4 block=32 | ck.asarray([3000001, 3000003, 2999999, 3000006], dtype="int32"), r(8*1024), z(4*1024), 3000000, 8, 1024
__global__ void shard_embed(const int* tokens, const float* shard, float* out, int first, int rows, int C) {
    int token = tokens[blockIdx.x];
    ⟦if (token < first || token >= first + rows) {
        for (int c = threadIdx.x; c < C; c += blockDim.x) out[blockIdx.x * C + c] = 0.f;
        return;
    }|||⟧
    long long base = (long long)first * C;
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        long long at = (long long)token * C + c - base;
        out[blockIdx.x * C + c] = shard[at]; //!
    }
}
## bounds: split heads, stride of the heads by tokens | grid=5 block=64 | r(2*6*3*3*8), z(288), z(288), z(288), 2, 6, 3, 8
__global__ void permute_qkv(const float* inp, float* q, float* k, float* v, int B, int N, int NH, int d) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * NH * N * d) return;
    int b = idx / (NH * N * d);
    int rest = idx % (NH * N * d);
    int nh = rest / (N * d);
    rest = rest % (N * d);
    int n = rest / d;
    int i = rest % d;
    int from = b * N * 3 * NH * d + n * 3 * NH * d + nh * ⟦d|||N * d⟧ + i;
    q[idx] = inp[from]; //!
    k[idx] = inp[from + NH * d]; //!
    v[idx] = inp[from + 2 * NH * d]; //!
}
## bounds: split heads, grid rounded up without a guard | grid=5 block=64 | r(2*6*3*3*8), z(288), z(288), z(288), 2, 6, 3, 8
__global__ void permute_qkv(const float* inp, float* q, float* k, float* v, int B, int N, int NH, int d) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    ⟦if (idx >= B * NH * N * d) return;|||⟧
    int b = idx / (NH * N * d);
    int rest = idx % (NH * N * d);
    int nh = rest / (N * d);
    rest = rest % (N * d);
    int n = rest / d;
    int i = rest % d;
    int from = b * N * 3 * NH * d + n * 3 * NH * d + nh * d + i;
    q[idx] = inp[from]; //!
    k[idx] = inp[from + NH * d]; //!
    v[idx] = inp[from + 2 * NH * d]; //!
}
## bounds: im2col, rows held against the width | grid=3 block=64 | r(2*6*10), z(2*9*15), 2, 6, 10, 3, 5
__global__ void im2col(const float* im, float* col, int C, int H, int W, int Ho, int Wo) {
    const int K = 3, STRIDE = 2;
    int n = C * Ho * Wo;
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < n; index += blockDim.x * gridDim.x) {
        int w_out = index % Wo, h_out = index / Wo % Ho, c = index / Wo / Ho;
        int h_in = h_out * STRIDE, w_in = w_out * STRIDE;
        float* to = col + c * K * K * Ho * Wo + h_out * Wo + w_out;
        const float* from = im + c * H * W;
        for (int i = 0; i < K; ++i)
            for (int j = 0; j < K; ++j) {
                int h = h_in + i, w = w_in + j;
                *to = h < ⟦H|||W⟧ && w < W ? from[h * W + w] : 0.f; //!
                to += Ho * Wo;
            }
    }
}
## bounds: im2col, column stride of the input's size | grid=3 block=64 | r(2*6*10), z(2*9*15), 2, 6, 10, 3, 5
__global__ void im2col(const float* im, float* col, int C, int H, int W, int Ho, int Wo) {
    const int K = 3, STRIDE = 2;
    int n = C * Ho * Wo;
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < n; index += blockDim.x * gridDim.x) {
        int w_out = index % Wo, h_out = index / Wo % Ho, c = index / Wo / Ho;
        int h_in = h_out * STRIDE, w_in = w_out * STRIDE;
        float* to = col + c * K * K * ⟦Ho * Wo|||H * W⟧ + h_out * Wo + w_out;
        const float* from = im + c * H * W;
        for (int i = 0; i < K; ++i)
            for (int j = 0; j < K; ++j) {
                int h = h_in + i, w = w_in + j;
                *to = h < H && w < W ? from[h * W + w] : 0.f; //!
                to += Ho * Wo;
            }
    }
}
## race: max pool backward, overlapping windows add plainly | grid=2 block=64 | r(100), i(100, 50) - 4, z(2*50), 2, 50, 50
__global__ void max_pool_backward(const float* dy, const int* argmax, float* dx, int planes, int out_size, int in_size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * out_size) return;
    int plane = i / out_size;
    int at = argmax[i];
    if (at < 0) return;
    float* gradient = dx + plane * in_size;
    float g = dy[i];
    if (g == 0.f) return;
    ⟦atomicAdd(&gradient[at], g)|||gradient[at] += g⟧; //!
}
## bounds: max pool backward, windows of padding alone | grid=2 block=64 | r(100), i(100, 50) - 4, z(2*50), 2, 50, 50
__global__ void max_pool_backward(const float* dy, const int* argmax, float* dx, int planes, int out_size, int in_size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * out_size) return;
    int plane = i / out_size;
    int at = argmax[i];
    ⟦if (at < 0) return;|||⟧
    float* gradient = dx + plane * in_size;
    float g = dy[i];
    if (g == 0.f) return;
    atomicAdd(&gradient[at], g); //!
}
## race: index add, rows of the same index | grid=4 block=16 | r(64*8), i(64, 16) - 8, z(8*8), 64, 8, 8
__global__ void index_add(const float* src, const int* index, float* dst, int n, int rows, int C) {
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        int r = index[i];
        if (r < 0) r += rows;
        if (r >= rows) continue;
        for (int c = threadIdx.x; c < C; c += blockDim.x) {
            float v = src[i * C + c];
            ⟦atomicAdd(&dst[r * C + c], v)|||dst[r * C + c] = dst[r * C + c] + v⟧; //!
        }
    }
}
## bounds: index add, negative indices not wrapped | grid=4 block=16 | r(64*8), i(64, 16) - 8, z(8*8), 64, 8, 8
__global__ void index_add(const float* src, const int* index, float* dst, int n, int rows, int C) {
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        int r = index[i];
        ⟦if (r < 0) r += rows;|||⟧
        if (r >= rows) continue;
        for (int c = threadIdx.x; c < C; c += blockDim.x) {
            float v = src[i * C + c];
            atomicAdd(&dst[r * C + c], v); //!
        }
    }
}
## race: bilinear resize backward, gradients of shared corners | grid=1 block=64 | r(64), z(16), 8, 8, 4, 4
__global__ void resize_backward(const float* dy, float* dx, int Ho, int Wo, int H, int W) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Ho * Wo) return;
    float sy = i / Wo * (H - 1.f) / (Ho - 1.f), sx = i % Wo * (W - 1.f) / (Wo - 1.f);
    int y = min((int)sy, H - 1), x = min((int)sx, W - 1);
    int down = y < H - 1 ? W : 0, right = x < W - 1 ? 1 : 0;
    float ly = sy - y, lx = sx - x, g = dy[i];
    float* corner = dx + y * W + x;
    atomicAdd(corner, g * (1 - ly) * (1 - lx));
    ⟦atomicAdd(corner + right, g * (1 - ly) * lx)|||corner[right] += g * (1 - ly) * lx⟧; //!
    atomicAdd(corner + down, g * ly * (1 - lx));
    atomicAdd(corner + down + right, g * ly * lx);
}
## bounds: bilinear resize backward, right and lower neighbour at the border | grid=1 block=64 | r(64), z(16), 8, 8, 4, 4
__global__ void resize_backward(const float* dy, float* dx, int Ho, int Wo, int H, int W) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Ho * Wo) return;
    float sy = i / Wo * (H - 1.f) / (Ho - 1.f), sx = i % Wo * (W - 1.f) / (Wo - 1.f);
    int y = min((int)sy, H - 1), x = min((int)sx, W - 1);
    int down = ⟦y < H - 1 ? W : 0|||W⟧, right = ⟦x < W - 1 ? 1 : 0|||1⟧;
    float ly = sy - y, lx = sx - x, g = dy[i];
    float* corner = dx + y * W + x;
    atomicAdd(corner, g * (1 - ly) * (1 - lx));
    atomicAdd(corner + right, g * (1 - ly) * lx); //!
    atomicAdd(corner + down, g * ly * (1 - lx)); //!
    atomicAdd(corner + down + right, g * ly * lx); //!
}
