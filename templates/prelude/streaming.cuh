// A value written to memory that nobody reads soon: on a GPU it is the first that caches give up.
template <typename T>
__device__ __forceinline__ void store_streaming(T* to, const T& value) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) == 16) {
        __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&value));
        return;
    }
#endif
    *to = value;
}
