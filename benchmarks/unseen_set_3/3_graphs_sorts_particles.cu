## race: voxelise points, points of a voxel counted plainly | grid=2 block=64 | r(256), z(16, "int32"), z(16*4*2), 128, 4, 4
__global__ void voxelize(const float* points, int* count, float* voxels, int n, int side, int max_points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float px = points[2 * i], py = points[2 * i + 1];
    int x = min((int)(px * side), side - 1), y = min((int)(py * side), side - 1);
    int cell = y * side + x;
    int slot = ⟦atomicAdd(&count[cell], 1)|||count[cell]++⟧; //!
    if (slot < max_points) {
        voxels[(cell * max_points + slot) * 2] = px; //!
        voxels[(cell * max_points + slot) * 2 + 1] = py; //!
    }
}
## race: voxelise points, one point more than the voxel holds | grid=2 block=64 | r(256), z(16, "int32"), z(16*4*2), 128, 4, 4
__global__ void voxelize(const float* points, int* count, float* voxels, int n, int side, int max_points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float px = points[2 * i], py = points[2 * i + 1];
    int x = min((int)(px * side), side - 1), y = min((int)(py * side), side - 1);
    int cell = y * side + x;
    int slot = atomicAdd(&count[cell], 1);
    if (slot ⟦<|||<=⟧ max_points) {
        voxels[(cell * max_points + slot) * 2] = px; //!
        voxels[(cell * max_points + slot) * 2 + 1] = py; //!
    }
}
## unset: k-means sums, one axis of the sums cleared | grid=2 block=32 | r(200), i(100, 8), z(16), z(8, "int32"), 100
__global__ void kmeans_update(const float* points, const int* label, float* sums, int* sizes, int n) {
    const int K = 8, D = 2;
    __shared__ float s[K * D];
    __shared__ int c[K];
    int t = threadIdx.x;
    if (t < ⟦K * D|||K⟧) s[t] = 0.f;
    if (t < K) c[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) {
        int k = label[i];
        for (int d = 0; d < D; ++d) atomicAdd(&s[k * D + d], points[i * D + d]); //!
        atomicAdd(&c[k], 1);
    }
    __syncthreads();
    if (t < K) {
        for (int d = 0; d < D; ++d) atomicAdd(&sums[t * D + d], s[t * D + d]); //!
        atomicAdd(&sizes[t], c[t]);
    }
}
## missing barrier: k-means sums, sums handed on before all have added | grid=2 block=32 | r(200), i(100, 8), z(16), z(8, "int32"), 100
__global__ void kmeans_update(const float* points, const int* label, float* sums, int* sizes, int n) {
    const int K = 8, D = 2;
    __shared__ float s[K * D];
    __shared__ int c[K];
    int t = threadIdx.x;
    if (t < K * D) s[t] = 0.f;
    if (t < K) c[t] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) {
        int k = label[i];
        for (int d = 0; d < D; ++d) atomicAdd(&s[k * D + d], points[i * D + d]); //!
        atomicAdd(&c[k], 1); //!
    }
    ⟦__syncthreads();|||⟧
    if (t < K) {
        for (int d = 0; d < D; ++d) atomicAdd(&sums[t * D + d], s[t * D + d]); //!
        atomicAdd(&sizes[t], c[t]); //!
    }
}
## race: pagerank push, rank given to neighbours plainly | grid=1 block=32 | a(33)*3, i(96, 32), r(32), z(32), 32, 4
__global__ void pagerank(const int* rowptr, const int* col, float* rank, float* next, int n, int rounds) {
    const float damping = 0.85f;
    for (int round = 0; round < rounds; ++round) {
        for (int v = threadIdx.x; v < n; v += blockDim.x) next[v] = (1.f - damping) / n;
        __syncthreads();
        for (int v = threadIdx.x; v < n; v += blockDim.x) {
            int begin = rowptr[v], end = rowptr[v + 1];
            float share = damping * rank[v] / (end - begin);
            for (int e = begin; e < end; ++e) ⟦atomicAdd(&next[col[e]], share)|||next[col[e]] += share⟧; //!
        }
        __syncthreads();
        float* other = rank;
        rank = next;
        next = other;
    }
}
## missing barrier: pagerank push, rank given before all are set | grid=1 block=32 | a(33)*3, i(96, 32), r(32), z(32), 32, 4
__global__ void pagerank(const int* rowptr, const int* col, float* rank, float* next, int n, int rounds) {
    const float damping = 0.85f;
    for (int round = 0; round < rounds; ++round) {
        for (int v = threadIdx.x; v < n; v += blockDim.x) next[v] = (1.f - damping) / n; //!
        ⟦__syncthreads();|||⟧
        for (int v = threadIdx.x; v < n; v += blockDim.x) {
            int begin = rowptr[v], end = rowptr[v + 1];
            float share = damping * rank[v] / (end - begin);
            for (int e = begin; e < end; ++e) atomicAdd(&next[col[e]], share); //!
        }
        __syncthreads();
        float* other = rank;
        rank = next;
        next = other;
    }
}
## race: bfs level with a queue in shared memory, visited looked at, then set | grid=2 block=32 | a(65)*4, i(256, 256), z(256, "int32") - 1, a(64), 64, z(256, "int32"), z(1, "int32"), 1
__global__ void bfs_level(const int* rowptr, const int* col, int* dist, const int* frontier, int size, int* next,
                          int* next_size, int level) {
    __shared__ int queue[128];
    __shared__ int count, base;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (i < size) {
        int v = frontier[i];
        for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
            int u = col[e];
            ⟦if (atomicCAS(&dist[u], -1, level) == -1) queue[atomicAdd(&count, 1)] = u;|||if (dist[u] == -1) { //!
                dist[u] = level; //!
                queue[atomicAdd(&count, 1)] = u;
            }⟧
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) base = atomicAdd(next_size, count);
    __syncthreads();
    for (int k = threadIdx.x; k < count; k += blockDim.x) next[base + k] = queue[k];
}
## bounds: bfs level with a queue in shared memory, queue of the block too small | grid=2 block=32 | a(65)*4, i(256, 256), z(256, "int32") - 1, a(64), 64, z(256, "int32"), z(1, "int32"), 1
__global__ void bfs_level(const int* rowptr, const int* col, int* dist, const int* frontier, int size, int* next,
                          int* next_size, int level) {
    __shared__ int queue[⟦128|||32⟧];
    __shared__ int count, base;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (i < size) {
        int v = frontier[i];
        for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
            int u = col[e];
            if (atomicCAS(&dist[u], -1, level) == -1) queue[atomicAdd(&count, 1)] = u; //!
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) base = atomicAdd(next_size, count);
    __syncthreads();
    for (int k = threadIdx.x; k < count; k += blockDim.x) next[base + k] = queue[k]; //!
}
## missing barrier: union find, roots before all are their own | grid=1 block=64 | i(80, 64), i(80, 64), z(64, "int32"), z(64, "int32"), 64, 80
__device__ int root(int* parent, int v) {
    for (int p; (p = atomicAdd(&parent[v], 0)) != v; v = p) {} //!
    return v;
}
__global__ void components(const int* from, const int* to, int* parent, int* label, int n, int edges) {
    for (int v = threadIdx.x; v < n; v += blockDim.x) parent[v] = v; //!
    ⟦__syncthreads();|||⟧
    for (int e = threadIdx.x; e < edges; e += blockDim.x) {
        int a = root(parent, from[e]), b = root(parent, to[e]);
        while (a != b) {
            if (a < b) { int c = a; a = b; b = c; }
            int seen = atomicCAS(&parent[a], a, b); //!
            if (seen == a) break;
            a = root(parent, seen);
        }
    }
    __syncthreads();
    for (int v = threadIdx.x; v < n; v += blockDim.x) {
        int r = v;
        while (parent[r] != r) r = parent[r];
        label[v] = r;
    }
}
## race: union find, root hung by a plain store | grid=1 block=64 | i(80, 64), i(80, 64), z(64, "int32"), z(64, "int32"), 64, 80
__device__ int root(int* parent, int v) {
    for (int p; (p = atomicAdd(&parent[v], 0)) != v; v = p) {} //!
    return v;
}
__global__ void components(const int* from, const int* to, int* parent, int* label, int n, int edges) {
    for (int v = threadIdx.x; v < n; v += blockDim.x) parent[v] = v;
    __syncthreads();
    for (int e = threadIdx.x; e < edges; e += blockDim.x) {
        int a = root(parent, from[e]), b = root(parent, to[e]);
        while (a != b) {
            if (a < b) { int c = a; a = b; b = c; }
            ⟦int seen = atomicCAS(&parent[a], a, b);
            if (seen == a) break;
            a = root(parent, seen);|||parent[a] = b; //!
            a = b;⟧
        }
    }
    __syncthreads();
    for (int v = threadIdx.x; v < n; v += blockDim.x) {
        int r = v;
        while (parent[r] != r) r = parent[r];
        label[v] = r;
    }
}
## race: single source shortest paths, distance lowered by a plain store | grid=2 block=32 | a(65)*3, i(192, 64), r(192), f(64), z(1, "int32"), 64
__global__ void relax(const int* rowptr, const int* col, const float* weight, float* dist, int* changed, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    float mine = __int_as_float(atomicAdd((int*)&dist[v], 0));
    for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
        float through = mine + 0.1f * weight[e];
        int u = col[e];
        ⟦int old = atomicMin((int*)&dist[u], __float_as_int(through));
        if (through < __int_as_float(old)) atomicExch(changed, 1);|||if (through < dist[u]) { //!
            dist[u] = through; //!
            atomicExch(changed, 1);
        }⟧
    }
}
## bounds: single source shortest paths, one edge beyond the last | grid=2 block=32 | a(65)*3, i(192, 64), r(192), f(64), z(1, "int32"), 64
__global__ void relax(const int* rowptr, const int* col, const float* weight, float* dist, int* changed, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    float mine = __int_as_float(atomicAdd((int*)&dist[v], 0));
    for (int e = rowptr[v]; e ⟦<|||<=⟧ rowptr[v + 1]; ++e) {
        float through = mine + 0.1f * weight[e]; //!
        int u = col[e]; //!
        int old = atomicMin((int*)&dist[u], __float_as_int(through));
        if (through < __int_as_float(old)) atomicExch(changed, 1);
    }
}
## race: colouring by priorities, colours read while they change | grid=2 block=32 | a(65)*3, i(192, 64), i(64, 4), z(64, "int32"), 64
__global__ void recolor(const int* rowptr, const int* col, const int* color, int* next, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    bool used[8] = {};
    bool clash = false;
    for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
        int u = col[e];
        if (u == v) continue;
        int c = ⟦color|||next⟧[u]; //!
        used[c] = true;
        clash |= c == color[v] && u < v;
    }
    int mine = color[v];
    if (clash)
        for (mine = 0; used[mine]; ++mine) {}
    next[v] = mine; //!
}
## unset: colouring by priorities, table of used colours | grid=2 block=32 | a(65)*3, i(192, 64), i(64, 4), z(64, "int32"), 64
__global__ void recolor(const int* rowptr, const int* col, const int* color, int* next, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    bool used[8]⟦ = {}|||⟧;
    bool clash = false;
    for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
        int u = col[e];
        if (u == v) continue;
        int c = color[u];
        used[c] = true;
        clash |= c == color[v] && u < v;
    }
    int mine = color[v];
    if (clash)
        for (mine = 0; used[mine]; ++mine) {} //!
    next[v] = mine;
}
## race: triangle count, total of all vertices | grid=1 block=32 | a(25)*6, a(144) % 6 * 4 + 3 - a(144) // 138, z(1, "int32"), 24
__global__ void triangles(const int* rowptr, const int* col, int* total, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    int found = 0;
    for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
        int u = col[e];
        for (int f = rowptr[v]; f < rowptr[v + 1]; ++f) {
            int key = col[f], lo = rowptr[u], hi = rowptr[u + 1], end = hi;
            while (lo < hi) {
                int mid = (lo + hi) / 2;
                if (col[mid] < key) lo = mid + 1; else hi = mid;
            }
            if (lo < end && col[lo] == key) ++found;
        }
    }
    ⟦atomicAdd(total, found)|||*total += found⟧; //!
}
## bounds: triangle count, compared with what follows the last neighbour | grid=1 block=32 | a(25)*6, a(144) % 6 * 4 + 3 - a(144) // 138, z(1, "int32"), 24
__global__ void triangles(const int* rowptr, const int* col, int* total, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    int found = 0;
    for (int e = rowptr[v]; e < rowptr[v + 1]; ++e) {
        int u = col[e];
        for (int f = rowptr[v]; f < rowptr[v + 1]; ++f) {
            int key = col[f], lo = rowptr[u], hi = rowptr[u + 1], end = hi;
            while (lo < hi) {
                int mid = (lo + hi) / 2;
                if (col[mid] < key) lo = mid + 1; else hi = mid;
            }
            if (⟦lo < end && |||⟧col[lo] == key) ++found; //!
        }
    }
    atomicAdd(total, found);
}
## unset: string match with a halo, halo of the text | grid=4 block=64 | i(200, 3).astype("uint8"), i(5, 3).astype("uint8"), z(200, "int32"), 200, 5
__global__ void match(const unsigned char* text, const unsigned char* pattern, int* out, int n, int m) {
    __shared__ unsigned char s[64 + 16];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n) s[t] = text[i];
    else s[t] = 0;
    ⟦if (t < m - 1) {
        int ahead = blockIdx.x * 64 + 64 + t;
        s[64 + t] = ahead < n ? text[ahead] : 0;
    }|||⟧
    __syncthreads();
    if (i + m > n) return;
    bool same = true;
    for (int k = 0; k < m; ++k) same &= s[t + k] == pattern[k]; //!
    out[i] = same;
}
## bounds: string match with a halo, halo beyond the text | grid=4 block=64 | i(200, 3).astype("uint8"), i(5, 3).astype("uint8"), z(200, "int32"), 200, 5
__global__ void match(const unsigned char* text, const unsigned char* pattern, int* out, int n, int m) {
    __shared__ unsigned char s[64 + 16];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n) s[t] = text[i];
    else s[t] = 0;
    if (t < m - 1) {
        int ahead = blockIdx.x * 64 + 64 + t;
        s[64 + t] = ⟦ahead < n ? text[ahead] : 0|||text[ahead]⟧; //!
    }
    __syncthreads();
    if (i + m > n) return;
    bool same = true;
    for (int k = 0; k < m; ++k) same &= s[t + k] == pattern[k];
    out[i] = same;
}
## bounds: blelloch scan without bank conflicts, padding of the last element | grid=2 block=32 | r(128), z(128), 64
#define CF(i) ((i) + ((i) >> 5))
__global__ void prescan(const float* in, float* out, int n) {
    __shared__ float temp[64⟦ + 1|||⟧];
    int t = threadIdx.x, offset = 1;
    in += blockIdx.x * n;
    out += blockIdx.x * n;
    temp[CF(t)] = in[t];
    temp[CF(t + n / 2)] = in[t + n / 2]; //!
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) temp[CF(offset * (2 * t + 2) - 1)] += temp[CF(offset * (2 * t + 1) - 1)]; //!
        offset *= 2;
    }
    if (t == 0) temp[CF(n - 1)] = 0.f; //!
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int ai = CF(offset * (2 * t + 1) - 1), bi = CF(offset * (2 * t + 2) - 1);
            float v = temp[ai];
            temp[ai] = temp[bi]; //!
            temp[bi] += v; //!
        }
    }
    __syncthreads();
    out[t] = temp[CF(t)];
    out[t + n / 2] = temp[CF(t + n / 2)]; //!
}
## missing barrier: blelloch scan without bank conflicts, levels on the way down | grid=2 block=32 | r(128), z(128), 64
#define CF(i) ((i) + ((i) >> 5))
__global__ void prescan(const float* in, float* out, int n) {
    __shared__ float temp[64 + 1];
    int t = threadIdx.x, offset = 1;
    in += blockIdx.x * n;
    out += blockIdx.x * n;
    temp[CF(t)] = in[t];
    temp[CF(t + n / 2)] = in[t + n / 2];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) temp[CF(offset * (2 * t + 2) - 1)] += temp[CF(offset * (2 * t + 1) - 1)];
        offset *= 2;
    }
    if (t == 0) temp[CF(n - 1)] = 0.f;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        ⟦__syncthreads();|||⟧
        if (t < d) {
            int ai = CF(offset * (2 * t + 1) - 1), bi = CF(offset * (2 * t + 2) - 1);
            float v = temp[ai]; //!
            temp[ai] = temp[bi]; //!
            temp[bi] += v; //!
        }
    }
    __syncthreads();
    out[t] = temp[CF(t)];
    out[t + n / 2] = temp[CF(t + n / 2)];
}
## missing barrier: block scan by warps, sums of the warps before | grid=1 block=128 | r(100), z(100), z(1), 100
__global__ void block_scan(const float* x, float* y, float* total, int n) {
    __shared__ float sums[4];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float v = i < n ? x[i] : 0.f;
    for (int o = 1; o < 32; o *= 2) {
        float u = __shfl_up_sync(0xffffffff, v, o);
        if (lane >= o) v += u;
    }
    if (lane == 31) sums[warp] = v; //!
    ⟦__syncthreads();|||⟧
    for (int w = 0; w < warp; ++w) v += sums[w]; //!
    if (i < n) y[i] = v;
    if (threadIdx.x == 0) *total = sums[0] + sums[1] + sums[2] + sums[3]; //!
}
## unset: block scan by warps, early end of the last warp's lanes | grid=1 block=128 | r(100), z(100), z(1), 100
__global__ void block_scan(const float* x, float* y, float* total, int n) {
    __shared__ float sums[4];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    ⟦float v = i < n ? x[i] : 0.f;|||if (i >= n) return;
    float v = x[i];⟧
    for (int o = 1; o < 32; o *= 2) {
        float u = __shfl_up_sync(0xffffffff, v, o);
        if (lane >= o) v += u;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    for (int w = 0; w < warp; ++w) v += sums[w];
    if (i < n) y[i] = v;
    if (threadIdx.x == 0) *total = sums[0] + sums[1] + sums[2] + sums[3]; //!
}
## bounds: histogram of each warp, histograms of two warps | grid=2 block=128 | i(400, 256).astype("uint8"), z(32, "uint32"), 400
#define BINS 32
#define WARPS ⟦4|||2⟧
__global__ void histogram(const unsigned char* data, unsigned* out, int n) {
    __shared__ unsigned h[WARPS * BINS];
    for (int b = threadIdx.x; b < WARPS * BINS; b += blockDim.x) h[b] = 0;
    __syncthreads();
    unsigned* mine = h + threadIdx.x / 32 * BINS;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = data[i] >> 3;
        atomicAdd(&mine[bin], 1u); //!
    }
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += h[w * BINS + b];
        atomicAdd(&out[b], sum);
    }
}
## race: histogram of each warp, lanes of a warp count plainly | grid=2 block=128 | i(400, 256).astype("uint8"), z(32, "uint32"), 400
#define BINS 32
#define WARPS 4
__global__ void histogram(const unsigned char* data, unsigned* out, int n) {
    __shared__ unsigned h[WARPS * BINS];
    for (int b = threadIdx.x; b < WARPS * BINS; b += blockDim.x) h[b] = 0;
    __syncthreads();
    unsigned* mine = h + threadIdx.x / 32 * BINS;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = data[i] >> 3;
        ⟦atomicAdd(&mine[bin], 1u)|||mine[bin]++⟧; //!
    }
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
        unsigned sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += h[w * BINS + b];
        atomicAdd(&out[b], sum);
    }
}
## missing barrier: radix sort of a block by splits, flags before they are added up | grid=2 block=64 | i(128, 256)
__global__ void radix_sort(int* keys) {
    __shared__ int s[64], f[64];
    int t = threadIdx.x;
    s[t] = keys[blockIdx.x * 64 + t];
    for (int bit = 0; bit < 8; ++bit) {
        int k = s[t], b = (k >> bit) & 1;
        f[t] = !b; //!
        ⟦__syncthreads();|||⟧
        for (int o = 1; o < 64; o *= 2) {
            int v = t >= o ? f[t - o] : 0; //!
            __syncthreads();
            f[t] += v;
            __syncthreads();
        }
        int falses = f[63];
        s[b ? falses + t - f[t] : f[t] - 1] = k;
        __syncthreads();
    }
    __syncthreads();
    keys[blockIdx.x * 64 + t] = s[t];
}
## missing barrier: radix sort of a block by splits, keys before the next bit | grid=2 block=64 | i(128, 256)
__global__ void radix_sort(int* keys) {
    __shared__ int s[64], f[64];
    int t = threadIdx.x;
    s[t] = keys[blockIdx.x * 64 + t];
    for (int bit = 0; bit < 8; ++bit) {
        int k = s[t], b = (k >> bit) & 1; //!
        f[t] = !b; //!
        __syncthreads();
        for (int o = 1; o < 64; o *= 2) {
            int v = t >= o ? f[t - o] : 0;
            __syncthreads();
            f[t] += v;
            __syncthreads();
        }
        int falses = f[63]; //!
        s[b ? falses + t - f[t] : f[t] - 1] = k; //!
        ⟦__syncthreads();|||⟧
    }
    __syncthreads();
    keys[blockIdx.x * 64 + t] = s[t];
}
## unset: bitonic sort with a tail, places after the last key | grid=1 block=64 | r(50), 50
__global__ void bitonic(float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    ⟦else s[t] = INFINITY;|||⟧
    __syncthreads();
    for (int k = 2; k <= 64; k *= 2) {
        for (int j = k / 2; j > 0; j /= 2) {
            int p = t ^ j;
            if (p > t && (s[t] > s[p]) == ((t & k) == 0)) { //!
                float v = s[t]; //!
                s[t] = s[p]; //!
                s[p] = v; //!
            }
            __syncthreads();
        }
        __syncthreads();
    }
    if (t < n) x[t] = s[t]; //!
}
## missing barrier: bitonic sort with a tail, one for each stage only | grid=1 block=64 | r(50), 50
__global__ void bitonic(float* x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    else s[t] = INFINITY;
    __syncthreads();
    for (int k = 2; k <= 64; k *= 2) {
        for (int j = k / 2; j > 0; j /= 2) {
            int p = t ^ j;
            if (p > t && (s[t] > s[p]) == ((t & k) == 0)) { //!
                float v = s[t]; //!
                s[t] = s[p]; //!
                s[p] = v; //!
            }
            ⟦__syncthreads();|||⟧
        }
        __syncthreads();
    }
    if (t < n) x[t] = s[t];
}
## bounds: merge of two sorted lists, search that may look beyond the end | grid=1 block=64 | a(40)*3, a(40)*2, z(80, "int32"), z(80, "int32"), 40, 40
__device__ int lower(const int* a, int n, int key) {
    ⟦int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] < key) lo = mid + 1; else hi = mid;
    }|||int lo = 0, hi = n;
    while (lo <= hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] < key) lo = mid + 1; else hi = mid - 1; //!
    }⟧
    return lo;
}
__device__ int upper(const int* a, int n, int key) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] <= key) lo = mid + 1; else hi = mid;
    }
    return lo;
}
__global__ void merge(const int* a, const int* b, int* keys, int* from, int na, int nb) {
    int i = threadIdx.x;
    if (i < na) {
        int at = i + lower(b, nb, a[i]);
        keys[at] = a[i];
        from[at] = i;
    }
    if (i < nb) {
        int at = i + upper(a, na, b[i]);
        keys[at] = b[i];
        from[at] = na + i;
    }
}
## race: merge of two sorted lists, equal keys of both lists at one place | grid=1 block=64 | a(40)*3, a(40)*2, z(80, "int32"), z(80, "int32"), 40, 40
__device__ int lower(const int* a, int n, int key) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] < key) lo = mid + 1; else hi = mid;
    }
    return lo;
}
__device__ int upper(const int* a, int n, int key) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (a[mid] <= key) lo = mid + 1; else hi = mid;
    }
    return lo;
}
__global__ void merge(const int* a, const int* b, int* keys, int* from, int na, int nb) {
    int i = threadIdx.x;
    if (i < na) {
        int at = i + lower(b, nb, a[i]);
        keys[at] = a[i]; //!
        from[at] = i; //!
    }
    if (i < nb) {
        int at = i + ⟦upper|||lower⟧(a, na, b[i]);
        keys[at] = b[i]; //!
        from[at] = na + i; //!
    }
}
## race: hash table by linear probing, free slot looked at, then taken | grid=4 block=32 | a(120)*37 + 5, a(120), z(128, "int32") - 1, z(128, "int32"), 120
__global__ void insert(const int* key, const int* value, int* table, int* values, int n) {
    const int EMPTY = -1, SLOTS = 128;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int k = key[i];
    unsigned h = k;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    int slot = (h ^ (h >> 16)) & (SLOTS - 1);
    while (true) {
        ⟦if (atomicCAS(&table[slot], EMPTY, k) == EMPTY) {|||if (table[slot] == EMPTY) { //!
            table[slot] = k; //!⟧
            values[slot] = value[i]; //!
            return;
        }
        slot = (slot + 1) & (SLOTS - 1);
    }
}
## bounds: hash table by linear probing, probing beyond the last slot | grid=4 block=32 | a(120)*37 + 5, a(120), z(128, "int32") - 1, z(128, "int32"), 120
__global__ void insert(const int* key, const int* value, int* table, int* values, int n) {
    const int EMPTY = -1, SLOTS = 128;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int k = key[i];
    unsigned h = k;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    int slot = (h ^ (h >> 16)) & (SLOTS - 1);
    while (true) {
        if (atomicCAS(&table[slot], EMPTY, k) == EMPTY) { //!
            values[slot] = value[i]; //!
            return;
        }
        slot = (slot + 1)⟦ & (SLOTS - 1)|||⟧;
    }
}
## between blocks: numbers for distinct keys, number read before it is there | grid=2 block=32 | i(64, 20), z(64, "int32") - 1, z(64, "int32") - 1, z(64, "int32"), z(1, "int32"), z(64, "int32")
__global__ void unique_ids(const int* key, int* table, int* ids, int* first, int* next, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = key[i], slot = k * 5 & 63, id;
    while (true) {
        int seen = atomicCAS(&table[slot], -1, k);
        if (seen == -1) {
            id = atomicAdd(next, 1);
            first[id] = i;
            __threadfence();
            ⟦atomicExch(&ids[slot], id)|||ids[slot] = id⟧; //!
            break;
        }
        if (seen == k) {
            ⟦while ((id = atomicAdd(&ids[slot], 0)) < 0) {}
            __threadfence();|||id = ids[slot]; //!⟧
            break;
        }
        slot = (slot + 1) & 63;
    }
    out[i] = id < 0 ? -1 : first[id];
}
## between blocks: numbers for distinct keys, first place stored after the number is out | grid=2 block=32 | i(64, 20), z(64, "int32") - 1, z(64, "int32") - 1, z(64, "int32"), z(1, "int32"), z(64, "int32")
__global__ void unique_ids(const int* key, int* table, int* ids, int* first, int* next, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = key[i], slot = k * 5 & 63, id;
    while (true) {
        int seen = atomicCAS(&table[slot], -1, k);
        if (seen == -1) {
            id = atomicAdd(next, 1);
            ⟦first[id] = i;
            __threadfence();
            atomicExch(&ids[slot], id);|||atomicExch(&ids[slot], id); //!
            first[id] = i; //!
            __threadfence();⟧
            break;
        }
        if (seen == k) {
            while ((id = atomicAdd(&ids[slot], 0)) < 0) {} //!
            __threadfence();
            break;
        }
        slot = (slot + 1) & 63;
    }
    out[i] = id < 0 ? -1 : first[id]; //!
}
## race: random walk with saved states, state of the thread in its block | grid=2 block=32 | i(64, 1 << 30).astype("uint32"), z(64), z(64*8), z(1, "int32"), 8
__global__ void sample(unsigned* states, float* mean, float* accepted, int* count, int steps) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned s = states[⟦id|||threadIdx.x⟧] | 1u; //!
    float sum = 0.f;
    for (int k = 0; k < steps; ++k) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
        float u = (s >> 8) * (1.f / 16777216.f);
        if (u < 0.5f) {
            int at = atomicAdd(count, 1);
            accepted[at] = u;
        }
        sum += u;
    }
    states[⟦id|||threadIdx.x⟧] = s; //!
    mean[id] = sum / steps;
}
## race: random walk with saved states, number of accepted samples | grid=2 block=32 | i(64, 1 << 30).astype("uint32"), z(64), z(64*8), z(1, "int32"), 8
__global__ void sample(unsigned* states, float* mean, float* accepted, int* count, int steps) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned s = states[id] | 1u;
    float sum = 0.f;
    for (int k = 0; k < steps; ++k) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
        float u = (s >> 8) * (1.f / 16777216.f);
        if (u < 0.5f) {
            int at = ⟦atomicAdd(count, 1)|||(*count)++⟧; //!
            accepted[at] = u; //!
        }
        sum += u;
    }
    states[id] = s;
    mean[id] = sum / steps;
}
## missing barrier: lagged fibonacci generator, old words before they are replaced | grid=1 block=64 | i(128, 1 << 30).astype("uint32"), z(640, "uint32"), 10
__global__ void lagged(unsigned* state, unsigned* out, int rounds) {
    const int LONG = 119, SHORT = 71, SIZE = 128;
    __shared__ unsigned s[SIZE];
    int t = threadIdx.x;
    for (int k = t; k < SIZE; k += blockDim.x) s[k] = state[k];
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        int n = round * blockDim.x + t;
        unsigned v = s[(n + SIZE - SHORT) % SIZE] + s[(n + SIZE - LONG) % SIZE]; //!
        ⟦__syncthreads();|||⟧
        s[n % SIZE] = v; //!
        out[n] = v;
        __syncthreads();
    }
    for (int k = t; k < SIZE; k += blockDim.x) state[k] = s[k];
}
## bounds: lagged fibonacci generator, lag of the first words | grid=1 block=64 | i(128, 1 << 30).astype("uint32"), z(640, "uint32"), 10
__global__ void lagged(unsigned* state, unsigned* out, int rounds) {
    const int LONG = 119, SHORT = 71, SIZE = 128;
    __shared__ unsigned s[SIZE];
    int t = threadIdx.x;
    for (int k = t; k < SIZE; k += blockDim.x) s[k] = state[k];
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        int n = round * blockDim.x + t;
        unsigned v = s[(n + SIZE - SHORT) % SIZE] + s[⟦(n + SIZE - LONG)|||(n - LONG)⟧ % SIZE]; //!
        __syncthreads();
        s[n % SIZE] = v;
        out[n] = v;
        __syncthreads();
    }
    for (int k = t; k < SIZE; k += blockDim.x) state[k] = s[k];
}
## missing barrier: needleman wunsch tile, next diagonal | grid=1 block=16 | z(17*17, "int32") - a(289) // 17, i(256, 10), 17, 3
__global__ void needle(int* matrix, const int* reference, int cols, int penalty) {
    __shared__ int temp[17][17], ref[16][16];
    int tx = threadIdx.x;
    for (int ty = 0; ty < 16; ++ty) ref[ty][tx] = reference[ty * 16 + tx];
    if (tx == 0) temp[0][0] = matrix[0];
    temp[tx + 1][0] = matrix[cols * (tx + 1)];
    temp[0][tx + 1] = matrix[tx + 1];
    __syncthreads();
    for (int m = 0; m < 16; ++m) {
        if (tx <= m) {
            int x = tx + 1, y = m - tx + 1;
            temp[y][x] = max(temp[y - 1][x - 1] + ref[y - 1][x - 1], max(temp[y][x - 1], temp[y - 1][x]) - penalty); //!
        }
        ⟦__syncthreads();|||⟧
    }
    __syncthreads();
    for (int m = 14; m >= 0; --m) {
        if (tx <= m) {
            int x = tx + 16 - m, y = 16 - tx;
            temp[y][x] = max(temp[y - 1][x - 1] + ref[y - 1][x - 1], max(temp[y][x - 1], temp[y - 1][x]) - penalty);
        }
        __syncthreads();
    }
    for (int ty = 0; ty < 16; ++ty) matrix[(ty + 1) * cols + tx + 1] = temp[ty + 1][tx + 1];
}
## unset: needleman wunsch tile, corner of the borders | grid=1 block=16 | z(17*17, "int32") - a(289) // 17, i(256, 10), 17, 3
__global__ void needle(int* matrix, const int* reference, int cols, int penalty) {
    __shared__ int temp[17][17], ref[16][16];
    int tx = threadIdx.x;
    for (int ty = 0; ty < 16; ++ty) ref[ty][tx] = reference[ty * 16 + tx];
    ⟦if (tx == 0) temp[0][0] = matrix[0];|||⟧
    temp[tx + 1][0] = matrix[cols * (tx + 1)];
    temp[0][tx + 1] = matrix[tx + 1];
    __syncthreads();
    for (int m = 0; m < 16; ++m) {
        if (tx <= m) {
            int x = tx + 1, y = m - tx + 1;
            temp[y][x] = max(temp[y - 1][x - 1] + ref[y - 1][x - 1], max(temp[y][x - 1], temp[y - 1][x]) - penalty); //!
        }
        __syncthreads();
    }
    __syncthreads();
    for (int m = 14; m >= 0; --m) {
        if (tx <= m) {
            int x = tx + 16 - m, y = 16 - tx;
            temp[y][x] = max(temp[y - 1][x - 1] + ref[y - 1][x - 1], max(temp[y][x - 1], temp[y - 1][x]) - penalty);
        }
        __syncthreads();
    }
    for (int ty = 0; ty < 16; ++ty) matrix[(ty + 1) * cols + tx + 1] = temp[ty + 1][tx + 1];
}
## missing barrier: pathfinder with ghost zones, results become the next row | grid=2 block=64 | i(112, 10), i(4*112, 10), z(112, "int32"), 112, 4
__global__ void pathfinder(const int* src, const int* wall, int* dst, int cols, int rows) {
    __shared__ int prev[64], result[64];
    int tx = threadIdx.x, inner = 64 - 2 * rows;
    int x = inner * blockIdx.x - rows + tx;
    int first = blockIdx.x == 0 ? rows : 0;
    int last = inner * blockIdx.x - rows + 63 > cols - 1 ? cols - 1 - (inner * blockIdx.x - rows) : 63;
    bool valid = tx >= first && tx <= last, computed = false;
    int west = max(tx - 1, first), east = min(tx + 1, last);
    if (x >= 0 && x < cols) prev[tx] = src[x];
    __syncthreads();
    for (int i = 0; i < rows; ++i) {
        computed = false;
        if (tx >= i + 1 && tx <= 62 - i && valid) {
            computed = true;
            result[tx] = min(prev[west], min(prev[tx], prev[east])) + wall[cols * i + x]; //!
        }
        ⟦__syncthreads();|||⟧
        if (i == rows - 1) break;
        if (computed) prev[tx] = result[tx]; //!
        __syncthreads();
    }
    if (computed) dst[x] = result[tx];
}
## unset: pathfinder with ghost zones, neighbour left of the first column | grid=2 block=64 | i(112, 10), i(4*112, 10), z(112, "int32"), 112, 4
__global__ void pathfinder(const int* src, const int* wall, int* dst, int cols, int rows) {
    __shared__ int prev[64], result[64];
    int tx = threadIdx.x, inner = 64 - 2 * rows;
    int x = inner * blockIdx.x - rows + tx;
    int first = blockIdx.x == 0 ? rows : 0;
    int last = inner * blockIdx.x - rows + 63 > cols - 1 ? cols - 1 - (inner * blockIdx.x - rows) : 63;
    bool valid = tx >= first && tx <= last, computed = false;
    int west = ⟦max(tx - 1, first)|||tx - 1⟧, east = min(tx + 1, last);
    if (x >= 0 && x < cols) prev[tx] = src[x];
    __syncthreads();
    for (int i = 0; i < rows; ++i) {
        computed = false;
        if (tx >= i + 1 && tx <= 62 - i && valid) {
            computed = true;
            result[tx] = min(prev[west], min(prev[tx], prev[east])) + wall[cols * i + x]; //!
        }
        __syncthreads();
        if (i == rows - 1) break;
        if (computed) prev[tx] = result[tx];
        __syncthreads();
    }
    if (computed) dst[x] = result[tx];
}
## buffer: viterbi, scores of a step in those of the step before | grid=1 block=32 | r(1024), r(10*32), z(10*32, "int32"), z(10, "int32"), 10
__global__ void viterbi(const float* trans, const float* emit, int* back, int* path, int T) {
    __shared__ float v[2][32];
    int s = threadIdx.x;
    v[0][s] = emit[s];
    __syncthreads();
    for (int t = 1; t < T; ++t) {

        const float* old = v[(t - 1) & 1];
        float best = -INFINITY;
        int from = 0;
        for (int p = 0; p < 32; ++p) {
            float score = old[p] + trans[p * 32 + s]; //!
            if (score > best) { best = score; from = p; }
        }
        back[t * 32 + s] = from;
        ⟦v[t & 1]|||v[(t - 1) & 1]⟧[s] = best + emit[t * 32 + s]; //!
        __syncthreads();
    }
    if (s == 0) {
        int at = 0;
        for (int p = 1; p < 32; ++p) if (v[(T - 1) & 1][p] > v[(T - 1) & 1][at]) at = p; //!
        for (int t = T - 1; t > 0; --t) { path[t] = at; at = back[t * 32 + at]; }
        path[0] = at;
    }
}
## misplaced barrier: viterbi, before the step, not after it | grid=1 block=32 | r(1024), r(10*32), z(10*32, "int32"), z(10, "int32"), 10
__global__ void viterbi(const float* trans, const float* emit, int* back, int* path, int T) {
    __shared__ float v[2][32];
    int s = threadIdx.x;
    v[0][s] = emit[s];
    ⟦__syncthreads();|||⟧
    for (int t = 1; t < T; ++t) {
        ⟦|||__syncthreads();⟧
        const float* old = v[(t - 1) & 1];
        float best = -INFINITY;
        int from = 0;
        for (int p = 0; p < 32; ++p) {
            float score = old[p] + trans[p * 32 + s];
            if (score > best) { best = score; from = p; }
        }
        back[t * 32 + s] = from; //!
        v[t & 1][s] = best + emit[t * 32 + s]; //!
        ⟦__syncthreads();|||⟧
    }
    if (s == 0) {
        int at = 0;
        for (int p = 1; p < 32; ++p) if (v[(T - 1) & 1][p] > v[(T - 1) & 1][at]) at = p; //!
        for (int t = T - 1; t > 0; --t) { path[t] = at; at = back[t * 32 + at]; } //!
        path[0] = at;
    }
}
## missing barrier: n-body by tiles, next tile over bodies in use | grid=3 block=32 | r(320), z(240), 80
__global__ void nbody(const float4* body, float* force, int n) {
    __shared__ float4 tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = body[min(i, n - 1)];
    float fx = 0, fy = 0, fz = 0;
    for (int base = 0; base < n; base += 32) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? body[j] : make_float4(0, 0, 0, 0); //!
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z; //!
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float s = tile[k].w * r * r * r; //!
            fx += s * dx; fy += s * dy; fz += s * dz;
        }
        ⟦__syncthreads();|||⟧
    }
    if (i < n) { force[3 * i] = fx; force[3 * i + 1] = fy; force[3 * i + 2] = fz; }
}
## unset: n-body by tiles, surplus threads end before they load | grid=3 block=32 | r(320), z(240), 80
__global__ void nbody(const float4* body, float* force, int n) {
    __shared__ float4 tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ⟦float4 me = body[min(i, n - 1)];|||if (i >= n) return;
    float4 me = body[i];⟧
    float fx = 0, fy = 0, fz = 0;
    for (int base = 0; base < n; base += 32) {
        int j = base + threadIdx.x;
        tile[threadIdx.x] = j < n ? body[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z; //!
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float s = tile[k].w * r * r * r; //!
            fx += s * dx; fy += s * dy; fz += s * dz;
        }
        __syncthreads();
    }
    if (i < n) { force[3 * i] = fx; force[3 * i + 1] = fy; force[3 * i + 2] = fz; }
}
## race: linked cells of particles, head of the list by plain stores | grid=2 block=32 | f(64), f(64), z(64, "int32") - 1, z(64, "int32"), 64, 8
__global__ void build_cells(const float* px, const float* py, int* head, int* next, int n, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int cx = (int)((px[i] - 1.f) * side), cy = (int)((py[i] - 1.f) * side);
    cx = min(max(cx, 0), side - 1);
    cy = min(max(cy, 0), side - 1);
    int cell = cy * side + cx;
    ⟦next[i] = atomicExch(&head[cell], i);|||next[i] = head[cell]; //!
    head[cell] = i; //!⟧
}
## bounds: linked cells of particles, particle on the upper wall | grid=2 block=32 | f(64), f(64), z(64, "int32") - 1, z(64, "int32"), 64, 8
__global__ void build_cells(const float* px, const float* py, int* head, int* next, int n, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int cx = (int)((px[i] - 1.f) * side), cy = (int)((py[i] - 1.f) * side);
    ⟦cx = min(max(cx, 0), side - 1);
    cy = min(max(cy, 0), side - 1);|||⟧
    int cell = cy * side + cx;
    next[i] = atomicExch(&head[cell], i); //!
}
## missing barrier: cell starts of sorted particles, hash of the particle before | grid=2 block=64 | a(100) // 3, z(34, "int32"), z(34, "int32"), 100
__global__ void cell_starts(const int* hashes, int* start, int* end, int n) {
    __shared__ int shared_hash[64 + 1];
    int i = blockIdx.x * blockDim.x + threadIdx.x, hash = -1;
    if (i < n) {
        hash = hashes[i];
        shared_hash[threadIdx.x + 1] = hash; //!
        if (i > 0 && threadIdx.x == 0) shared_hash[0] = hashes[i - 1]; //!
    }
    ⟦__syncthreads();|||⟧
    if (i < n) {
        if (i == 0 || hash != shared_hash[threadIdx.x]) { //!
            start[hash] = i;
            if (i > 0) end[shared_hash[threadIdx.x]] = i; //!
        }
        if (i == n - 1) end[hash] = i + 1;
    }
}
## bounds: cell starts of sorted particles, one hash more than threads | grid=2 block=64 | a(100) // 3, z(34, "int32"), z(34, "int32"), 100
__global__ void cell_starts(const int* hashes, int* start, int* end, int n) {
    __shared__ int shared_hash[64⟦ + 1|||⟧];
    int i = blockIdx.x * blockDim.x + threadIdx.x, hash = -1;
    if (i < n) {
        hash = hashes[i];
        shared_hash[threadIdx.x + 1] = hash; //!
        if (i > 0 && threadIdx.x == 0) shared_hash[0] = hashes[i - 1];
    }
    __syncthreads();
    if (i < n) {
        if (i == 0 || hash != shared_hash[threadIdx.x]) {
            start[hash] = i;
            if (i > 0) end[shared_hash[threadIdx.x]] = i;
        }
        if (i == n - 1) end[hash] = i + 1;
    }
}
## overflow: spatial hash, negative hash | grid=2 block=64 | i(300, 1000), z(65, "int32"), z(100, "int32"), 100, 64
__global__ void spatial_hash(const int* position, int* count, int* slot, int n, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int* p = position + 3 * i;
    ⟦unsigned h = (unsigned)p[0] * 73856093u ^ (unsigned)p[1] * 19349663u ^ (unsigned)p[2] * 83492791u;
    int bucket = h % size;|||int h = p[0] * 73856093 ^ p[1] * 19349663 ^ p[2] * 83492791; //!
    int bucket = h % size;⟧
    slot[i] = atomicAdd(&count[bucket], 1); //!
}
## race: spatial hash, slots of a bucket | grid=2 block=64 | i(300, 1000), z(65, "int32"), z(100, "int32"), 100, 64
__global__ void spatial_hash(const int* position, int* count, int* slot, int n, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int* p = position + 3 * i;
    unsigned h = (unsigned)p[0] * 73856093u ^ (unsigned)p[1] * 19349663u ^ (unsigned)p[2] * 83492791u;
    int bucket = h % size;
    slot[i] = ⟦atomicAdd(&count[bucket], 1)|||count[bucket]++⟧; //!
}
## unset: stream compaction by ballots, place known to the first lane alone | grid=1 block=128 | r(100), z(100), z(1, "int32"), 100
__global__ void compact(const float* x, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float v = i < n ? x[i] : 0.f;
    bool keep = i < n && v > 0.5f;
    unsigned votes = 0;
    votes = __ballot_sync(0xffffffff, keep);
    int base;
    if (lane == 0) base = atomicAdd(count, __popc(votes));
    ⟦base = __shfl_sync(0xffffffff, base, 0);|||__syncwarp();⟧
    if (keep) out[base + __popc(votes & ((1u << lane) - 1))] = v; //!
}
## divergent warp function: stream compaction by ballots, ballot of the lanes in range | grid=1 block=128 | r(100), z(100), z(1, "int32"), 100
__global__ void compact(const float* x, float* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float v = i < n ? x[i] : 0.f;
    bool keep = i < n && v > 0.5f;
    unsigned votes = 0;
    ⟦|||if (i < n) ⟧votes = __ballot_sync(0xffffffff, keep); //!
    int base;
    if (lane == 0) base = atomicAdd(count, __popc(votes));
    base = __shfl_sync(0xffffffff, base, 0); //!
    if (keep) out[base + __popc(votes & ((1u << lane) - 1))] = v;
}
## between blocks: chained scan, flag without a fence | grid=4 block=32 | r(128), z(128), z(4), z(4, "int32"), z(1, "int32")
__global__ void chained_scan(const float* x, float* y, float* sums, int* flags, int* ticket) {
    __shared__ float before;
    int lane = threadIdx.x, b = 0;
    if (lane == 0) b = atomicAdd(ticket, 1);
    b = __shfl_sync(0xffffffff, b, 0);
    float v = x[b * 32 + lane];
    for (int o = 1; o < 32; o *= 2) {
        float u = __shfl_up_sync(0xffffffff, v, o);
        if (lane >= o) v += u;
    }
    if (lane == 31) {
        float p = 0.f;
        if (b > 0) {
            while (atomicAdd(&flags[b - 1], 0) == 0) {}
            __threadfence();
            p = sums[b - 1]; //!
        }
        sums[b] = p + v; //!
        ⟦__threadfence();|||⟧
        atomicExch(&flags[b], 1); //!
        before = p;
    }
    __syncthreads();
    y[b * 32 + lane] = before + v;
}
## between blocks: chained scan, sum before is read before its flag | grid=4 block=32 | r(128), z(128), z(4), z(4, "int32"), z(1, "int32")
__global__ void chained_scan(const float* x, float* y, float* sums, int* flags, int* ticket) {
    __shared__ float before;
    int lane = threadIdx.x, b = 0;
    if (lane == 0) b = atomicAdd(ticket, 1);
    b = __shfl_sync(0xffffffff, b, 0);
    float v = x[b * 32 + lane];
    for (int o = 1; o < 32; o *= 2) {
        float u = __shfl_up_sync(0xffffffff, v, o);
        if (lane >= o) v += u;
    }
    if (lane == 31) {
        float p = 0.f;
        if (b > 0) {
            ⟦while (atomicAdd(&flags[b - 1], 0) == 0) {}
            __threadfence();
            p = sums[b - 1];|||p = sums[b - 1]; //!
            while (atomicAdd(&flags[b - 1], 0) == 0) {}
            __threadfence();⟧
        }
        sums[b] = p + v; //!
        __threadfence();
        atomicExch(&flags[b], 1);
        before = p;
    }
    __syncthreads();
    y[b * 32 + lane] = before + v;
}
## between blocks: sum by the last block, partial sum without a fence | grid=4 block=64 | r(256), z(4), z(1, "uint32"), z(1), 256
__global__ void reduce_last(const float* x, float* partial, unsigned* done, float* out, int n) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int h = 32; h > 0; h /= 2) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0]; //!
        ⟦__threadfence();|||⟧
        last = atomicInc(done, gridDim.x) == gridDim.x - 1; //!
    }
    __syncthreads();
    if (last) {
        __threadfence();
        float sum = 0.f;
        for (int b = t; b < gridDim.x; b += 64) sum += partial[b]; //!
        for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
        if (t == 0) *out = sum;
    }
}
## missing barrier: sum by the last block, whether this is the last block | grid=4 block=64 | r(256), z(4), z(1, "uint32"), z(1), 256
__global__ void reduce_last(const float* x, float* partial, unsigned* done, float* out, int n) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int h = 32; h > 0; h /= 2) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(done, gridDim.x) == gridDim.x - 1; //!
    }
    ⟦__syncthreads();|||⟧
    if (last) { //!
        __threadfence();
        float sum = 0.f;
        for (int b = t; b < gridDim.x; b += 64) sum += partial[b];
        for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
        if (t == 0) *out = sum;
    }
}
## between blocks: buckets under locks, lock released before the second field | grid=4 block=32 | ck.asarray([1, 0, 1, 1], dtype="int32"), r(4*32), z(4), z(4, "int32")
__global__ void locked_stats(const int* bucket, const float* x, float* stats, int* locks) {
    float v = x[blockIdx.x * 32 + threadIdx.x], top = v;
    for (int o = 16; o; o /= 2) {
        v += __shfl_xor_sync(0xffffffff, v, o);
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    }
    if (threadIdx.x == 0) {
        int b = bucket[blockIdx.x];
        int* lock = &locks[b];
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        stats[2 * b] += v;
        ⟦stats[2 * b + 1] = fmaxf(stats[2 * b + 1], top);
        __threadfence();
        atomicExch(lock, 0);|||__threadfence();
        atomicExch(lock, 0); //!
        stats[2 * b + 1] = fmaxf(stats[2 * b + 1], top); //!⟧
    }
}
## between blocks: buckets under locks, lock of another bucket | grid=4 block=32 | ck.asarray([1, 0, 1, 1], dtype="int32"), r(4*32), z(4), z(4, "int32")
__global__ void locked_stats(const int* bucket, const float* x, float* stats, int* locks) {
    float v = x[blockIdx.x * 32 + threadIdx.x], top = v;
    for (int o = 16; o; o /= 2) {
        v += __shfl_xor_sync(0xffffffff, v, o);
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    }
    if (threadIdx.x == 0) {
        int b = bucket[blockIdx.x];
        int* lock = &locks[⟦b|||blockIdx.x⟧];
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        stats[2 * b] += v; //!
        stats[2 * b + 1] = fmaxf(stats[2 * b + 1], top); //!
        __threadfence();
        atomicExch(lock, 0);
    }
}
## divergent warp function: welford by a warp, partner read under a condition | grid=3 block=32 | r(300), z(3), z(3), 100
__global__ void welford(const float* x, float* mean, float* var, int n) {
    const float* row = x + blockIdx.x * n;
    int lane = threadIdx.x;
    float m = 0.f, m2 = 0.f, count = 0.f;
    for (int i = lane; i < n; i += 32) {
        count += 1.f;
        float d = row[i] - m;
        m += d / count;
        m2 += d * (row[i] - m);
    }
    for (int o = 16; o > 0; o /= 2) {
        ⟦|||if (lane < o) {⟧
        float other = __shfl_down_sync(0xffffffff, m, o); //!
        float other2 = __shfl_down_sync(0xffffffff, m2, o); //!
        float others = __shfl_down_sync(0xffffffff, count, o); //!
        float d = other - m, total = count + others;
        if (lane < o) {
            m += d * others / total;
            m2 += other2 + d * d * count * others / total;
            count = total;
        }
        ⟦|||}⟧
    }
    if (lane == 0) { mean[blockIdx.x] = m; var[blockIdx.x] = m2 / n; }
}
## wrong lane: welford by a warp, mask of half the warp | grid=3 block=32 | r(300), z(3), z(3), 100
__global__ void welford(const float* x, float* mean, float* var, int n) {
    const float* row = x + blockIdx.x * n;
    int lane = threadIdx.x;
    float m = 0.f, m2 = 0.f, count = 0.f;
    for (int i = lane; i < n; i += 32) {
        count += 1.f;
        float d = row[i] - m;
        m += d / count;
        m2 += d * (row[i] - m);
    }
    for (int o = 16; o > 0; o /= 2) {

        float other = __shfl_down_sync(⟦0xffffffff|||0x0000ffff⟧, m, o); //!
        float other2 = __shfl_down_sync(0xffffffff, m2, o);
        float others = __shfl_down_sync(0xffffffff, count, o);
        float d = other - m, total = count + others;
        if (lane < o) {
            m += d * others / total;
            m2 += other2 + d * d * count * others / total;
            count = total;
        }

    }
    if (lane == 0) { mean[blockIdx.x] = m; var[blockIdx.x] = m2 / n; }
}
## between blocks: triangular solve without levels, solved before its value is there | grid=2 block=32 | r(63), r(126), z(63), z(63, "int32"), 63
__global__ void sptrsv(const float* rhs, const float* band, float* x, int* ready, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = rhs[row];
    for (int k = 1; k <= 2; ++k) {
        int c = row - k;
        if (c < 0) continue;
        while (atomicAdd(&ready[c], 0) == 0) {}
        __threadfence();
        sum -= 0.25f * band[2 * row + k - 1] * x[c]; //!
    }
    ⟦x[row] = sum;
    __threadfence();
    atomicExch(&ready[row], 1);|||atomicExch(&ready[row], 1); //!
    x[row] = sum; //!
    __threadfence();⟧
}
## bounds: triangular solve without levels, threads beyond the rows | grid=2 block=32 | r(63), r(126), z(63), z(63, "int32"), 63
__global__ void sptrsv(const float* rhs, const float* band, float* x, int* ready, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    ⟦if (row >= n) return;|||⟧
    float sum = rhs[row]; //!
    for (int k = 1; k <= 2; ++k) {
        int c = row - k;
        if (c < 0) continue;
        while (atomicAdd(&ready[c], 0) == 0) {}
        __threadfence();
        sum -= 0.25f * band[2 * row + k - 1] * x[c]; //!
    }
    x[row] = sum; //!
    __threadfence();
    atomicExch(&ready[row], 1); //!
}
