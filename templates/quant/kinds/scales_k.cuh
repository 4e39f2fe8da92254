// Of 64 weights the two scales and the two minimums, as floats to multiply and to add. A block begins with d and dmin, then 12
// bytes: scales 0 to 3, minimums 0 to 3, of each the low 6 bits; low halves of scales 4 to 7, with those of the minimums above
// them. Their 2 high bits are the highest of the first eight bytes.
struct ScalesK {
    float scale[2], least[2];

    ScalesK() = default;
    __device__ __forceinline__ ScalesK(const unsigned char* block, int unit) {
        unsigned head[4];
        load_words<16>(head, block);
        const float d = half_bits((unsigned short)head[0]), dmin = half_bits((unsigned short)(head[0] >> 16));
        const int shift = unit % 2 * 16;
        const unsigned first = head[1] >> shift, second = head[2] >> shift, low = head[3] >> shift;
        const unsigned scales = unit < 2 ? first & 0x3f3f : (first >> 2 & 0x3030) | (low & 0x0f0f);
        const unsigned minimums = unit < 2 ? second & 0x3f3f : (second >> 2 & 0x3030) | (low >> 4 & 0x0f0f);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            scale[i] = d * float(scales >> 8 * i & 255);
            least[i] = -(dmin * float(minimums >> 8 * i & 255));
        }
    }
};
