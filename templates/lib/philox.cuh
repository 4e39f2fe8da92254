// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four words of a counter and a key.
struct RandomWords {
    unsigned w[4];
};

// Ten rounds over the counter (low, high, 0, attempt).
__device__ __forceinline__ RandomWords philox(unsigned long long at, unsigned attempt, unsigned k0, unsigned k1) {
    unsigned a = unsigned(at), b = unsigned(at >> 32), c = 0, d = attempt;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned long long p = 0xD2511F53ull * a, q = 0xCD9E8D57ull * c;
        a = unsigned(q >> 32) ^ b ^ k0;
        b = unsigned(q);
        c = unsigned(p >> 32) ^ d ^ k1;
        d = unsigned(p);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return RandomWords{{a, b, c, d}};
}

__device__ __forceinline__ unsigned long long joined(unsigned low, unsigned high) {
    return shl((unsigned long long)high, 32) | low;
}
