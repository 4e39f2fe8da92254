// Neighbouring elements that are moved together, up to 16 bytes an access; N is a power of two.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
    T at[N];
};

// The same as memory holds it: read element by element, a compiler may make several accesses of one.
template <int BYTES>
struct alignas(BYTES < 16 ? BYTES : 16) Words {
    unsigned at[BYTES / 4];
};
template <>
struct Words<2> {
    unsigned short at;
};
template <>
struct Words<1> {
    unsigned char at;
};

// N elements from memory that is aligned to them, or to 16 bytes where they are more.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
    using Access = Words<sizeof(T) * N>;
    const Access words = *(const Access*)from;
    return *(const Pack<T, N>*)&words;
}

template <int N, typename T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
    *(Pack<T, N>*)to = pack;
}
