// Textures and surfaces of the host: arrays that kernels read at coordinates, by the rules of CUDA's programming guide
// ("Texture Fetching"). A texture object is the address of what cukern.device.host.texture packs.
#pragma once
#include "../cukern_half_bits.h"

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace cukern {

enum Address : unsigned char { wraps, clamps, mirrors, borders };
enum Kind : unsigned char { of_signed, of_unsigned, of_floats };

struct Sampled {
    unsigned long long mark;
    unsigned char* data;
    long long extent[3];  // along x, y and z; 1 beyond the axes that there are
    long long layers;     // at least 1
    unsigned axes, channels, bytes;  // of an element: its components, and the bytes of each
    Kind kind;
    Address address[3];
    unsigned char filters, normalizes, normalized_coords, layered, linear, surface;
    unsigned char border[16];  // an element
};
constexpr unsigned long long sampled_mark = 0x6c706d61736e656b;

// What a fetch returns: the type of a component, and their number.
template <class T>
struct Texel;
template <class Part, unsigned parts>
struct TexelOf {
    using type = Part;
    static constexpr unsigned count = parts;
};
template <class A, class B>
struct Same {
    static constexpr bool value = false;
};
template <class A>
struct Same<A, A> {
    static constexpr bool value = true;
};
#define CUKERN_TEXEL(type, name)                                                                                     \
    template <> struct Texel<type> : TexelOf<type, 1> {};                                                             \
    template <> struct Texel<name##1> : TexelOf<type, 1> {};                                                          \
    template <> struct Texel<name##2> : TexelOf<type, 2> {};                                                          \
    template <> struct Texel<name##4> : TexelOf<type, 4> {};
CUKERN_TEXEL(signed char, char)
CUKERN_TEXEL(unsigned char, uchar)
CUKERN_TEXEL(short, short)
CUKERN_TEXEL(unsigned short, ushort)
CUKERN_TEXEL(int, int)
CUKERN_TEXEL(unsigned int, uint)
CUKERN_TEXEL(float, float)
#undef CUKERN_TEXEL
template <> struct Texel<char> : TexelOf<signed char, 1> {};

[[noreturn]] static __attribute__((noinline, cold)) void mismatch(
    const char* name, const char* what, const char* file, int line) {
    char text[200];
    __builtin_snprintf(text, sizeof text, "%s: %s", name, what);
    fault(text, file, line);
}

// The array behind an object, once it is one that this function reads.
static inline const Sampled& sampled(
    unsigned long long object, const char* name, unsigned axes, bool layered, bool surface, const char* file, int line) {
    const Sampled* found = (const Sampled*)object;
    if (!found || object % alignof(Sampled) || found->mark != sampled_mark)
        mismatch(name, "the object was not made by cukern.Texture or cukern.Surface", file, line);
    if (found->surface != surface)
        mismatch(name, surface ? "expected a surface, got a texture" : "expected a texture, got a surface", file, line);
    if (found->axes != axes || found->layered != layered) mismatch(name, "the object has other axes", file, line);
    return *found;
}

template <class T>
inline void require_type(const Sampled& from, const char* name, const char* file, int line) {
    using Part = typename Texel<T>::type;
    constexpr Kind kind = Same<Part, float>::value ? of_floats : Part(-1) < Part(0) ? of_signed : of_unsigned;
    const bool floats = from.normalizes || from.kind == of_floats;
    if (Texel<T>::count != from.channels) mismatch(name, "the texture's elements have another number of channels", file, line);
    if (kind != (floats ? of_floats : from.kind) || (!floats && sizeof(Part) != from.bytes))
        mismatch(name, "the texture's elements are of another type than what is fetched", file, line);
}

template <class Part>
inline Part part_at(const unsigned char* at) {
    Part part;
    __builtin_memcpy(&part, at, sizeof(Part));
    return part;
}

// A component as a float: of integers, as a share of the largest.
static inline float float_at(const Sampled& from, const unsigned char* at) {
    if (from.kind == of_floats) return from.bytes == 2 ? from_half_bits(part_at<unsigned short>(at)) : part_at<float>(at);
    if (from.kind == of_unsigned)
        return from.bytes == 1 ? part_at<unsigned char>(at) / 255.0f : part_at<unsigned short>(at) / 65535.0f;
    const float share = from.bytes == 1 ? part_at<signed char>(at) / 127.0f : part_at<short>(at) / 32767.0f;
    return share < -1 ? -1 : share;
}

// An index brought into 0 to size - 1; -1 for the border.
static inline long long addressed(long long index, long long size, Address mode) {
    if (index >= 0 && index < size) return index;
    if (mode == borders) return -1;
    if (mode == clamps) return index < 0 ? 0 : size - 1;
    const long long period = mode == wraps ? size : 2 * size;
    index %= period;
    if (index < 0) index += period;
    return index < size ? index : period - 1 - index;
}

// A coordinate in elements. Of one that is normalized a GPU keeps 21 bits after the point, 22 along an axis of more than
// 8192 elements, and 23 along one of more than 65536.
static inline double in_elements(const Sampled& from, unsigned axis, float given) {
    double x = __builtin_fabsf(given) < 0x1p-126f || given != given ? 0 : given;
    if (from.normalized_coords) {
        // Two spans of the array are a period of each mode that repeats it.
        if (from.address[axis] == wraps || from.address[axis] == mirrors) x = __builtin_isinf(x) ? 0 : __builtin_fmod(x, 2);
        const double kept = from.extent[axis] > 65536 ? 0x1p23 : from.extent[axis] > 8192 ? 0x1p22 : 0x1p21;
        x = __builtin_floor(x * kept) / kept * from.extent[axis];
    }
    return x < -0x1p30 ? -0x1p30 : x > 0x1p30 ? 0x1p30 : x;
}

// An element and its successor along an axis, and the share of the latter in steps of 1/256.
struct Between {
    long long at[2];
    int share;
};

static inline Between between(const Sampled& from, unsigned axis, float given) {
    if (axis >= from.axes) return {{0, 0}, 0};
    const double x = in_elements(from, axis, given);
    Between result{{0, 0}, 0};
    long long first = (long long)__builtin_floor(x);
    if (from.filters) {
        const long long steps = (long long)__builtin_floor((x - 0.5) * 256 + 0.5);
        first = steps >> 8;
        result.share = (int)(steps & 255);
    }
    for (int i = 0; i < 2; ++i) result.at[i] = addressed(first + i, from.extent[axis], from.address[axis]);
    if (from.address[axis] == clamps && result.at[0] == result.at[1]) result.share = 0;  // the coordinate itself is clamped
    return result;
}

// Where an element is, or the border.
static inline const unsigned char* element(
    const Sampled& from, long long x, long long y, long long z, long long layer) {
    if (x < 0 || y < 0 || z < 0) return from.border;
    const long long row = ((layer * from.extent[2] + z) * from.extent[1] + y) * from.extent[0] + x;
    return from.data + row * from.channels * from.bytes;
}

template <class T>
inline T fetched(const Sampled& from, const unsigned char* at) {
    using Part = typename Texel<T>::type;
    Part parts[Texel<T>::count];
    for (unsigned i = 0; i < Texel<T>::count; ++i) {
        if constexpr (Same<Part, float>::value) parts[i] = float_at(from, at + i * from.bytes);
        else parts[i] = part_at<Part>(at + i * from.bytes);
    }
    T result;
    __builtin_memcpy(&result, parts, sizeof(T));
    return result;
}

// Filters as on GPUs, found by measuring: programming guides do not say how weights, elements and sums are rounded.

static inline int shared(int weight, int share) { return (weight * share + 128) >> 8; }

// The weights of the corners in steps of 1/256, of which the bits of `corner` say whether they follow along each axis:
// those of z, divided by x, and these by y. They sum to 256.
static inline void set_weights(const Between (&along)[3], int (&weights)[8]) {
    const int x = along[0].share, y = along[1].share, z = along[2].share;
    for (int far = 0; far < 2; ++far) {
        const int of = far ? z : 256 - z, after = shared(of, x), before = of - after;
        int* to = weights + 4 * far;
        to[3] = shared(after, y), to[1] = after - to[3];
        to[0] = shared(before, 256 - y), to[2] = before - to[0];
    }
}

// Whether a corner's weight is more than 0 before it is rounded.
static inline bool reached(const Between (&along)[3], unsigned corner) {
    for (unsigned axis = 0; axis < 3; ++axis)
        if (corner >> axis & 1 && along[axis].share == 0) return false;
    return true;
}

// The sum of at most four elements of one plane by weights: each without what is smaller than 1/16 of the largest's last
// place.
static inline double plane_sum(const float* elements, const int* weights, unsigned count, int digits) {
    int exponent = -1000;
    double sum = -0.0;
    for (unsigned i = 0; i < count; ++i)
        if (weights[i] && elements[i] != 0) {
            const int its = __builtin_ilogbf(elements[i]);
            exponent = its > exponent ? its : exponent;
        }
    const double step = __builtin_ldexp(1, exponent - digits - 3);
    for (unsigned i = 0; i < count; ++i) {
        if (!weights[i]) continue;
        sum += (elements[i] == 0 ? elements[i] : __builtin_trunc(elements[i] / step) * step) * weights[i];
    }
    return sum;
}

// The sum of finite elements of floats, rounded to their digits away from zero.
static inline float filtered_floats(const float* elements, const int* weights, unsigned count, int digits, int lowest) {
    double sum = plane_sum(elements, weights, count < 4 ? count : 4, digits);
    if (count > 4) sum += plane_sum(elements + 4, weights + 4, 4, digits);
    sum /= 256;
    if (sum == 0) return (float)sum;
    const int its = __builtin_ilogb(sum), last = (its < lowest ? lowest : its) - digits + 1;
    const double rounded = __builtin_ldexp(__builtin_round(__builtin_ldexp(sum, -last)), last);
    return digits == 24 && its < lowest ? __builtin_copysignf(0, (float)sum) : (float)rounded;
}

static inline int integer_at(const Sampled& from, const unsigned char* at) {
    if (from.kind == of_unsigned) return from.bytes == 1 ? *at : part_at<unsigned short>(at);
    return from.bytes == 1 ? part_at<signed char>(at) : part_at<short>(at);
}

// A sum of integers by weights, rounded to 16 bits, into which a GPU spreads those of 8.
static inline int spread(const Sampled& from, int sum) {
    if (from.bytes == 2) return (sum + 128) >> 8;
    return from.kind == of_unsigned ? (257 * sum + 128) >> 8 : (8 * sum + (sum >> 4) + (sum >> 12) + 4) >> 3;
}

static inline float filtered(
    const Sampled& from, const unsigned char* const* places, const Between (&along)[3], const int* weights, unsigned count) {
    if (from.kind == of_floats) {
        float elements[8], others = 0;
        for (unsigned i = 0; i < count; ++i) {
            elements[i] = float_at(from, places[i]);
            // What is infinite or NaN counts also where its weight is rounded to 0.
            if (!(__builtin_fabsf(elements[i]) < __builtin_inff()) && (weights[i] || reached(along, i))) others += elements[i];
            if (from.bytes == 4 && __builtin_fabsf(elements[i]) < 0x1p-126f) elements[i] = __builtin_copysignf(0, elements[i]);
        }
        if (others != 0) return others;
        return filtered_floats(elements, weights, count, from.bytes == 2 ? 11 : 24, from.bytes == 2 ? -14 : -126);
    }
    int sum = 0;
    for (unsigned i = 0; i < count; ++i) sum += weights[i] * integer_at(from, places[i]);
    const int largest = from.kind == of_unsigned ? 65535 : 32767, share = spread(from, sum);
    return (share < -largest ? -largest : share) / (float)largest;
}

template <class T>
inline T fetch(const Sampled& from, float x, float y, float z, int layer) {
    const Between along[3] = {between(from, 0, x), between(from, 1, y), between(from, 2, z)};
    const long long chosen = (unsigned)layer < from.layers ? layer : from.layers - 1;
    if constexpr (Same<typename Texel<T>::type, float>::value) {
        if (from.filters) {
            const unsigned count = 1u << from.axes;
            const unsigned char* places[8];
            int weights[8];
            set_weights(along, weights);
            for (unsigned i = 0; i < count; ++i)
                places[i] = element(from, along[0].at[i & 1], along[1].at[i >> 1 & 1], along[2].at[i >> 2], chosen);
            float parts[Texel<T>::count];
            for (float& part : parts) {
                part = filtered(from, places, along, weights, count);
                for (unsigned i = 0; i < count; ++i) places[i] += from.bytes;
            }
            T result;
            __builtin_memcpy(&result, parts, sizeof(T));
            return result;
        }
    }
    return fetched<T>(from, element(from, along[0].at[0], along[1].at[0], along[2].at[0], chosen));
}

template <class T>
inline T texture(
    unsigned long long object, const char* name, unsigned axes, bool layered, float x, float y, float z, int layer,
    const char* file, int line) {
    const Sampled& from = sampled(object, name, axes, layered, false, file, line);
    if (from.linear) mismatch(name, "a texture of linear memory is read by tex1Dfetch alone", file, line);
    require_type<T>(from, name, file, line);
    return fetch<T>(from, x, y, z, layer);
}

template <class T>
inline T linear_texture(unsigned long long object, int x, const char* file, int line) {
    const Sampled& from = sampled(object, "tex1Dfetch", 1, false, false, file, line);
    if (!from.linear) mismatch("tex1Dfetch", "expected a texture of linear memory: Texture(..., linear=True)", file, line);
    require_type<T>(from, "tex1Dfetch", file, line);
    return fetched<T>(from, element(from, x < from.extent[0] ? x : -1, 0, 0, 0));
}

// Where a surface function reads or writes; null for an access that does nothing. `x` counts bytes.
static inline unsigned char* on_surface(
    unsigned long long object, const char* name, unsigned axes, bool layered, unsigned bytes, const int (&x)[3], int layer,
    cudaSurfaceBoundaryMode mode, const char* file, int line) {
    const Sampled& from = sampled(object, name, axes, layered, true, file, line);
    const long long row = from.extent[0] * from.channels * from.bytes;
    if (x[0] % (int)bytes) mismatch(name, "x counts bytes, and is no multiple of those that are read or written", file, line);
    const long long limits[4] = {row - bytes, from.extent[1] - 1, from.extent[2] - 1, from.layers - 1};
    long long at[4] = {x[0], axes > 1 ? x[1] : 0, axes > 2 ? x[2] : 0, layered ? layer & 0xffff : 0};  // as a GPU's 16 bits
    for (int axis = 0; axis < 4; ++axis) {
        if (at[axis] >= 0 && at[axis] <= limits[axis]) continue;
        if (mode == cudaBoundaryModeZero) return nullptr;
        if (mode == cudaBoundaryModeTrap)
            mismatch(name, axis == 0   ? "x, which counts bytes, is outside the surface"
                           : axis == 1 ? "y is outside the surface"
                           : axis == 2 ? "z is outside the surface"
                                       : "the layer is outside the surface", file, line);
        at[axis] = at[axis] < 0 ? 0 : limits[axis];
    }
    return from.data + ((at[3] * from.extent[2] + at[2]) * from.extent[1] + at[1]) * row + at[0];
}

template <class T>
inline T surface_value(const unsigned char* at) {
    T value{};
    if (at) __builtin_memcpy((void*)&value, at, sizeof(T));
    return value;
}
}  // namespace cukern

// Each function in CUDA's two forms: the value as result, or at an address.
#define CUKERN_UNPACKED(...) __VA_ARGS__
#define CUKERN_TEXTURE(name, parameters, names, axes, layered, x, y, z, layer)                                        \
    template <class T>                                                                                                \
    inline T name(cudaTextureObject_t object, CUKERN_UNPACKED parameters, CUKERN_HERE) {                              \
        return cukern::texture<T>(object, #name, axes, layered, x, y, z, layer, file, line);                          \
    }                                                                                                                 \
    template <class T>                                                                                                \
    inline void name(T* to, cudaTextureObject_t object, CUKERN_UNPACKED parameters, CUKERN_HERE) {                    \
        *to = name<T>(object, CUKERN_UNPACKED names, file, line);                                                     \
    }
CUKERN_TEXTURE(tex1D, (float x), (x), 1, false, x, 0, 0, 0)
CUKERN_TEXTURE(tex2D, (float x, float y), (x, y), 2, false, x, y, 0, 0)
CUKERN_TEXTURE(tex3D, (float x, float y, float z), (x, y, z), 3, false, x, y, z, 0)
CUKERN_TEXTURE(tex2DLayered, (float x, float y, int layer), (x, y, layer), 2, true, x, y, 0, layer)
#undef CUKERN_TEXTURE
template <class T>
inline T tex1Dfetch(cudaTextureObject_t object, int x, CUKERN_HERE) {
    return cukern::linear_texture<T>(object, x, file, line);
}
template <class T>
inline void tex1Dfetch(T* to, cudaTextureObject_t object, int x, CUKERN_HERE) {
    *to = cukern::linear_texture<T>(object, x, file, line);
}

#define CUKERN_SURFACE(name, parameters, names, axes, layered, places, layer)                                         \
    template <class T>                                                                                                \
    inline T name##read(                                                                                              \
        cudaSurfaceObject_t object, CUKERN_UNPACKED parameters,                                                       \
        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, CUKERN_HERE) {                                           \
        const int place[3] = {CUKERN_UNPACKED places};                                                                \
        return cukern::surface_value<T>(                                                                              \
            cukern::on_surface(object, #name "read", axes, layered, sizeof(T), place, layer, mode, file, line));      \
    }                                                                                                                 \
    template <class T>                                                                                                \
    inline void name##read(                                                                                           \
        T* to, cudaSurfaceObject_t object, CUKERN_UNPACKED parameters,                                                \
        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, CUKERN_HERE) {                                           \
        *to = name##read<T>(object, CUKERN_UNPACKED names, mode, file, line);                                         \
    }                                                                                                                 \
    template <class T>                                                                                                \
    inline void name##write(                                                                                          \
        T value, cudaSurfaceObject_t object, CUKERN_UNPACKED parameters,                                              \
        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, CUKERN_HERE) {                                           \
        const int place[3] = {CUKERN_UNPACKED places};                                                                \
        unsigned char* at =                                                                                           \
            cukern::on_surface(object, #name "write", axes, layered, sizeof(T), place, layer, mode, file, line);      \
        if (at) __builtin_memcpy(at, &value, sizeof(T));                                                              \
    }
CUKERN_SURFACE(surf1D, (int x), (x), 1, false, (x), 0)
CUKERN_SURFACE(surf2D, (int x, int y), (x, y), 2, false, (x, y), 0)
CUKERN_SURFACE(surf3D, (int x, int y, int z), (x, y, z), 3, false, (x, y, z), 0)
CUKERN_SURFACE(surf2DLayered, (int x, int y, int layer), (x, y, layer), 2, true, (x, y), layer)
#undef CUKERN_SURFACE
#undef CUKERN_UNPACKED
