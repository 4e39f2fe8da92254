// Of 64 weights the two scales and the two minimums, as floats to multiply and to add. A block begins with d and dmin, then 12
// bytes: scales 0 to 3, minimums 0 to 3, of each the low 6 bits; low halves of scales 4 to 7, with those of the minimums above
// them. Their 2 high bits are the highest of the first eight bytes.
struct ScalesK {
    float scale[2], least[2];

    __device__ __forceinline__ ScalesK(const unsigned char* block, int unit) {
        const float d = half_at(block), dmin = half_at(block + 2);
        const unsigned short* const pairs = (const unsigned short*)(block + 4);
        const int at = unit % 2;
        unsigned scales = pairs[at], minimums = pairs[2 + at];
        if (unit < 2) {
            scales &= 0x3f3f, minimums &= 0x3f3f;
        } else {
            const unsigned low = pairs[4 + at];
            scales = (scales >> 2 & 0x3030) | (low & 0x0f0f);
            minimums = (minimums >> 2 & 0x3030) | (low >> 4 & 0x0f0f);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            scale[i] = d * float(scales >> 8 * i & 255);
            least[i] = -(dmin * float(minimums >> 8 * i & 255));
        }
    }
};
