// Bessel functions of orders 0 and 1, computed in double precision.
namespace bessel {

// e^-|x| I_n(x) for n = 0 or 1: the power series (Abramowitz and Stegun, 9.6.10), from 30 on the asymptotic one (9.7.1).
__device__ __forceinline__ double scaled_i(int n, double x) {
    const double size = fabs(x), sign = n == 1 && x < 0.0 ? -1.0 : 1.0;
    double term = 1.0, sum = 1.0;
    if (!(size > 30.0)) {
        const double s = 0.25 * size * size;
        for (double k = 1.0; term > 1e-18 * sum; k += 1.0) sum += term *= s / (k * (k + n));
        return sign * exp(-size) * (n == 1 ? 0.5 * size * sum : sum);
    }
    for (double k = 1.0; k < 30.0; k += 1.0) sum += term *= -(4.0 * n - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * size);
    return sign * sum / sqrt(6.283185307179586 * size);
}

__device__ __forceinline__ double i(int n, double x) {
    if (fabs(x) == limits<double>::infinity()) return n == 0 ? fabs(x) : x;
    const double half = exp(0.5 * fabs(x));  // the whole overflows before the result does
    return half * scaled_i(n, x) * half;
}

// Of single-precision numbers to 1e-9 of the value, also next to a zero: polynomials that interpolate the function, over its zeros
// or what it grows with, at Chebyshev's nodes.

// The polynomial of the coefficients, the constant first.
template <int N>
__device__ __forceinline__ double polynomial(const double (&coefficients)[N], double t) {
    double sum = coefficients[N - 1];
#pragma unroll
    for (int k = N - 2; k >= 0; --k) sum = sum * t + coefficients[k];
    return sum;
}

// e^-|x| I_n(x) for n = 0 or 1.
__device__ __forceinline__ double scaled_i(int n, float x) {
    const double size = fabs(double(x));
    if (!(size > 8.0)) {
        const double t = 0.25 * size - 1.0;
        if (n == 0) {
            constexpr double near[] = {
    0.20700192113298854, -0.1130043268544693, 0.09451564672892827, -0.08904344770455307, 0.08734281771702368,
    -0.08496317214579, 0.07928284334431146, -0.06954385402504584, 0.05672795589861263, -0.04296881129335962,
    0.030358703692477982, -0.019745851414068618, 0.011557353661066808, -0.006651419484491594, 0.004166015653562654,
    -0.0020044758245779414, 0.0004143919060489856, -0.00022722968338111303, 0.00034824109057890804,
    -0.00013152060630607088};
            return polynomial(near, t);
        }
        constexpr double near[] = {
    0.04468770986450251, -0.061124338025990106, 0.06805760212960305, -0.06848260694070092, 0.06376733064622675,
    -0.05528001503648954, 0.0446755031610766, -0.03367166370472805, 0.023680016667049938, -0.015569320920202672,
    0.009606095385955372, -0.005541908244896256, 0.0029563628396675574, -0.001522471036028631, 0.000812047943412777,
    -0.0003636452040028463, 9.375809886867844e-05, -4.317720058003002e-05, 4.7479082033953785e-05,
    -1.694785151624946e-05};
        return double(x) * polynomial(near, t);
    }
    const double t = 16.0 / size - 1.0, scale = 1.0 / sqrt(size);
    if (n == 0) {
        constexpr double far[] = {
    0.4021765094053054, 0.0033605520313900634, 0.000136217407834547, 1.1141542189580863e-05, 1.4754756356201013e-06,
    3.0383309086686276e-07, 1.0910232941075882e-07, 3.3635802235185296e-08};
        return scale * polynomial(far, t);
    }
    constexpr double far[] = {
    0.3893984590744713, -0.009749577241315432, -0.00021923738535629923, -1.5037047143805947e-05,
    -1.8250069387125121e-06, -3.5481954165334105e-07, -1.2318419674047784e-07, -3.7856024793316294e-08};
    return copysign(scale, double(x)) * polynomial(far, t);
}
__device__ __forceinline__ double i(int n, float x) {
    // The result is beyond single precision long before 200.
    const float size = fabs(x) > 200.0f ? 200.0f : fabs(x);
    return exp(double(size)) * scaled_i(n, copysign(size, x));
}

// Called and not copied: the texts of CUDA's own are long.
__device__ __noinline__ double j0(double x) { return ::j0(x); }
__device__ __noinline__ double j1(double x) { return ::j1(x); }
__device__ __noinline__ double y0(double x) { return ::y0(x); }
__device__ __noinline__ double y1(double x) { return ::y1(x); }

__device__ __forceinline__ double j0(float x) {
    const double z = double(x) * double(x);
    if (!(z <= 64.0)) return j0(double(x));
    constexpr double near[] = {
    0.0011434937743762545, -0.0021197942895662502, 0.001563643164596822, -0.0006415390629095783, 0.0001697720070668639,
    -3.1573435094095176e-05, 4.366932734020007e-06, -4.676906581965063e-07, 3.998745801586934e-08,
    -2.8169875917671225e-09, 1.6369971395695752e-10};
    return (z - 5.7831859629467845) * (z - 30.471262343662087) * polynomial(near, 0.03125 * z - 1.0);
}
__device__ __forceinline__ double j1(float x) {
    const double z = double(x) * double(x);
    if (!(z <= 64.0)) return j1(double(x));
    constexpr double near[] = {
    0.00019498936987128658, -0.00026975227467220035, 0.00015860016737720338, -5.4080032362678994e-05,
    1.2242178584045354e-05, -1.9890937412906723e-06, 2.4423842496600584e-07, -2.3521291690390297e-08,
    1.8426127501429105e-09, -1.1768979654427052e-10};
    return double(x) * (z - 14.681970642123893) * (z - 49.21845632169461) * polynomial(near, 0.03125 * z - 1.0);
}
__device__ __forceinline__ double y0(float number) {
    const double x = number;
    if (!(x > 0.0 && x <= 8.5)) return y0(x);
    if (x <= 0.75) {
        const double t = x * x * (1.0 / 0.28125) - 1.0;
        constexpr double rest[] = {
    -0.025112155616676488, 0.04744445092625457, -0.0012358832453029168, 1.1746635018841639e-05, -5.850504097408118e-08,
    1.8001667933273394e-10, -3.7674569811851926e-13}, first[] = {
    0.9309138482758825, -0.06786937485415963, 0.001207247466988824, -9.487555143988212e-06, 4.1840438507764604e-08};
        return 0.6366197723675814 * log(x) * polynomial(first, t) + polynomial(rest, t);
    }
    if (x <= 2.5) {
        constexpr double near[] = {
    0.5864151673859691, -0.3047219473855597, 0.03321903452402188, -0.011731296865810585, 0.010229067175269758,
    -0.004841223137909222, 0.0021893751480062135, -0.0010492548664533506, 0.0004936931694048254,
    -0.00024137791178030485, 0.00015440027082503708, -7.722185018562637e-05, -3.061701364254358e-06,
    1.8827665976702462e-06, 2.4667729648237642e-05, -1.2590570545946767e-05};
        return (x - 0.8935769662791675) * polynomial(near, (x - 1.625) * (1.0 / 0.875));
    }
    if (x <= 5.5) {
        constexpr double near[] = {
    -0.4002860728145819, 0.0836581062029545, 0.12966856789434997, -0.02436288601017465, -0.010838071834951815,
    0.0015796322798826876, 0.0005635836724093608, -8.540622106633789e-05, -8.109180482554049e-06,
    -3.9772384940741557e-07, 1.3370775447286314e-06, -4.0642246613197145e-07};
        return (x - 3.957678419314858) * polynomial(near, (x - 4.0) * (1.0 / 1.5));
    }
    constexpr double near[] = {
    0.3015621640942719, -0.019263090699948887, -0.10976215096355967, 0.00863845959363154, 0.011296042038132005,
    -0.0008844865873875475, -0.0005405693227869183, 3.921176468237403e-05, 1.529871027918844e-05,
    -9.850763562868086e-07, -2.7336555666720064e-07};
    return (x - 7.086051060301773) * polynomial(near, (x - 7.0) * (1.0 / 1.5));
}
__device__ __forceinline__ double y1(float number) {
    const double x = number;
    if (!(x > 0.0 && x <= 10.0)) return y1(x);
    if (x <= 1.5) {
        const double t = x * x * (1.0 / 1.125) - 1.0;
        constexpr double rest[] = {
    -0.7924938008658886, -0.09516745612616835, 0.05683244489943215, -0.0037663464470762535, 0.00010608072847920068,
    -1.6830694823973561e-06, 1.722572928726751e-08}, first[] = {
    0.43290722699842255, -0.06394815131856253, 0.0030705724851544584, -7.300292894445795e-05, 1.036484398725245e-06,
    -9.782449420666913e-09};
        return 0.6366197723675814 * log(x) * x * polynomial(first, t) + polynomial(rest, t) / x;
    }
    if (x <= 3.9) {
        constexpr double near[] = {
    0.45267678108085013, -0.18251222394691322, -0.045176124499923385, 0.009429971654806768, 0.007086622576296517,
    -0.0024691051589372137, 0.0006754262321215168, -0.00032733377628241044, 0.00015698540791805266,
    -7.517808737377537e-05, 3.3465546497345904e-05, -8.007355952926622e-06, 3.5798114548943968e-06,
    -6.223859781441906e-06, 2.7712955161972476e-06};
        return (x - 2.197141326031017) * polynomial(near, (x - 2.7) * (1.0 / 1.2));
    }
    if (x <= 7.0) {
        constexpr double near[] = {
    -0.3396602771106635, 0.05177599867051607, 0.12178032001429198, -0.016145020897207, -0.012414523578364542,
    0.0013621465649518712, 0.0006385199979700339, -6.331675082320232e-05, -1.805075131921661e-05,
    1.2370374560799556e-06, 4.4454597595476824e-07};
        return (x - 5.429681040794135) * polynomial(near, (x - 5.45) * (1.0 / 1.55));
    }
    constexpr double near[] = {
    0.27257374839077037, -0.011093464539742574, -0.09897915111324389, 0.005523770054092621, 0.010405431211866852,
    -0.0005967911350563853, -0.0005132642880578298, 2.8074816976039102e-05, 1.4797781213032409e-05,
    -7.262531626665155e-07, -2.703642301816308e-07};
    return (x - 8.596005868331168) * polynomial(near, (x - 8.5) * (1.0 / 1.5));
}

}  // namespace bessel
