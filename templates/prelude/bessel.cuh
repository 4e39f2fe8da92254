// Bessel functions, computed in double precision.
namespace bessel {

__device__ __forceinline__ double magnitude(double x) { return fabs(x); }
template <typename Complex>
__device__ __forceinline__ double magnitude(Complex z) {
    return fabs(z.re) + fabs(z.im);
}
// The sum of s^k / (k! (order + 1) ... (order + k)) over k >= 0.
template <typename N>
__device__ __forceinline__ N power_series(double order, N s) {
    N term(1.0), sum(1.0);
    for (double k = 1.0; magnitude(term) > 1e-18 * magnitude(sum); k += 1.0) sum += term *= s / (k * (k + order));
    return sum;
}
// Of large x what e^-x I_n(x) is over its limit 1 / sqrt(2 pi x) (Abramowitz and Stegun, 9.7.1).
__device__ __forceinline__ double large_i(int n, double size) {
    double term = 1.0, sum = 1.0;
    for (double k = 1.0; k < 30.0; k += 1.0) sum += term *= -(4.0 * n * n - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * size);
    return sum / sqrt(6.283185307179586 * size);
}
// e^-|x| I_n(x) for n = 0 or 1: the power series (Abramowitz and Stegun, 9.6.10), from 30 on the asymptotic one.
__device__ __forceinline__ double scaled_i(int n, double x) {
    const double size = fabs(x), sign = n == 1 && x < 0.0 ? -1.0 : 1.0;
    if (!(size > 30.0)) return sign * exp(-size) * (n == 1 ? 0.5 * size : 1.0) * power_series(n, 0.25 * size * size);
    return sign * large_i(n, size);
}

__device__ __forceinline__ double i(int n, double x) {
    if (fabs(x) == limits<double>::infinity()) return n == 0 ? fabs(x) : x;
    const double half = exp(0.5 * fabs(x));  // the whole overflows before the result does
    return half * scaled_i(n, x) * half;
}

// Of single-precision numbers to 1e-8 of the value, a tenth of what its last place is worth, also next to a zero: by polynomials
// that interpolate the function, over its zeros or what it grows with, at Chebyshev's nodes.

// The polynomial of the coefficients, the constant first, for -1 <= t <= 1. Only the first `wide` terms matter so much that
// they are summed in double precision.
template <int wide, int N>
__device__ __forceinline__ double polynomial(const double (&coefficients)[N], double t) {
    const float u = float(t);
    float rest = float(coefficients[N - 1]);
#pragma unroll
    for (int k = N - 2; k >= wide; --k) rest = rest * u + float(coefficients[k]);
    double sum = rest;
#pragma unroll
    for (int k = wide - 1; k >= 0; --k) sum = sum * t + coefficients[k];
    return sum;
}

// The square root of size times e^-size I_n(size), beyond 8.
__device__ __forceinline__ double far_i(int n, double size) {
    const double t = 16.0 / size - 1.0;
    if (n == 0) {
        constexpr double c[] = {
            0.4021765094053054, 0.0033605520313900634, 0.000136217407834547, 1.1141542189580863e-05,
            1.4754756356201013e-06, 3.0383309086686276e-07, 1.0910232941075882e-07, 3.3635802235185296e-08};
        return polynomial<1>(c, t);
    }
    constexpr double c[] = {
        0.3893984590744713, -0.009749577241315432, -0.00021923738535629923, -1.5037047143805947e-05,
        -1.8250069387125121e-06, -3.5481954165334105e-07, -1.2318419674047784e-07, -3.7856024793316294e-08};
    return polynomial<1>(c, t);
}
// e^-|x| I_n(x) for n = 0 or 1.
__device__ __forceinline__ double scaled_i(int n, float number) {
    const double x = number, size = fabs(x);
    if (!(size <= 8.0)) return copysign(1.0 / sqrt(size), n == 0 ? 1.0 : x) * far_i(n, size);
    if (n == 0) {
        if (size <= 4.0) {
            constexpr double c[] = {
                0.30850832255367105, -0.1864780694170461, 0.1576868446294797, -0.128895516660927, 0.09416160943033765,
                -0.0604328060462867, 0.03415080358764124, -0.017126463157435483, 0.007699356760200849,
                -0.0031421306151270863, 0.0011619193733239696, -0.00037736139977219174, 0.00011977385285905559,
                -4.669189403030385e-05, 1.2330378366857436e-05};
            return polynomial<7>(c, 0.5 * size - 1.0);
        }
        constexpr double c[] = {
            0.16665743259227359, -0.029211946650073338, 0.007740076975689998, -0.0023027997685436, 0.000728438440402528,
            -0.00023971313838237236, 8.087777889304613e-05, -2.736785245077792e-05, 8.822791888006777e-06,
            -2.8915665287937246e-06, 1.2029104040847228e-06, -3.5069425323151946e-07};
        return polynomial<2>(c, 0.5 * size - 3.0);
    }
    if (size <= 4.0) {
        constexpr double c[] = {
            0.10763464462446883, -0.12203025633637067, 0.10420196201776628, -0.07448812395371371, 0.04602935298641295,
            -0.025019545148350184, 0.012114050958159461, -0.005277946900769141, 0.0020880593482333746,
            -0.0007574384120622888, 0.0002521528654745397, -7.534764954442027e-05, 2.1790437771320523e-05,
            -7.486633986088939e-06, 1.8416935044071688e-06};
        return x * polynomial<8>(c, 0.5 * size - 1.0);
    }
    constexpr double c[] = {
        0.02534190988475098, -0.01202594878665127, 0.0047229621412291315, -0.001715295205578969, 0.0005932931703288194,
        -0.00019735745862298863, 6.329940938876564e-05, -1.958038825334922e-05, 5.816292813975453e-06,
        -1.624170988520349e-06, 4.4480772940890255e-07, -1.4309480910523801e-07, 3.506188671499496e-08};
    return x * polynomial<4>(c, 0.5 * size - 3.0);
}
// Where results are beyond single precision.
__device__ __forceinline__ double bounded(double size) { return size > 200.0 ? 200.0 : size; }
__device__ __forceinline__ double i0(float number) {
    const double x = number, z = x * x;
    if (!(z <= 64.0)) {
        const double size = bounded(fabs(x));
        return exp(size) / sqrt(size) * far_i(0, size);
    }
    if (z <= 25.0) {
        constexpr double c[] = {
            7.602298193180723, 11.328326115049762, 6.214427868419527, 1.7572179387042008, 0.30042714390381264,
            0.034223593568644496, 0.0027748127079802467, 0.00016797016556067387, 7.893572702611187e-06,
            2.9431361515365255e-07};
        return polynomial<5>(c, 0.08 * z - 1.0);
    }
    constexpr double c[] = {
        124.3951874746817, 167.57134653065037, 96.15366560010114, 31.57215430573944, 6.741002632433231,
        1.009141022173974, 0.11150244531210593, 0.009445784026246757, 0.0006356171899474688, 3.4306398733008965e-05};
    return polynomial<5>(c, (z - 44.5) * (1.0 / 19.5));
}
// I_1(x) / x.
__device__ __forceinline__ double i1_over(float number) {
    const double x = number, z = x * x;
    if (!(z <= 64.0)) {
        const double size = bounded(fabs(x));
        return exp(size) / (sqrt(size) * size) * far_i(1, size);
    }
    if (z <= 25.0) {
        constexpr double c[] = {
            1.8125321784078914, 1.9886169176705994, 0.8434646105746305, 0.19227337433505975, 0.0273788749000591,
            0.0026638148315721753, 0.0001881264680532454, 1.0107351881306377e-05, 4.238928662932393e-07};
        return polynomial<4>(c, 0.08 * z - 1.0);
    }
    constexpr double c[] = {
        17.1868047724886, 19.723828871644447, 9.714509012582186, 2.7655390518552534, 0.5175082439115115,
        0.06861894623793025, 0.006781537360422744, 0.0005183975609290928, 3.16966865958683e-05, 1.5673620475377786e-06};
    return polynomial<5>(c, (z - 44.5) * (1.0 / 19.5));
}
__device__ __forceinline__ double i(int n, float x) {
    return n == 0 ? i0(x) : x * i1_over(x);
}

// Called and not copied: the texts of CUDA's own are long.
__device__ __noinline__ double j0(double x) { return ::j0(x); }
__device__ __noinline__ double j1(double x) { return ::j1(x); }
__device__ __noinline__ double y0(double x) { return ::y0(x); }
__device__ __noinline__ double y1(double x) { return ::y1(x); }

// j0(x), and j1(x) / x, of z = x * x up to 64.
__device__ __forceinline__ double near_j0(double z) {
    constexpr double c[] = {
        0.0011434937743762545, -0.0021197942895662502, 0.001563643164596822, -0.0006415390629095783, 0.0001697720070668639,
        -3.1573435094095176e-05, 4.366932734020007e-06, -4.676906581965063e-07, 3.998745801586934e-08,
        -2.8169875917671225e-09, 1.6369971395695752e-10};
    return (z - 5.7831859629467845) * (z - 30.471262343662087) * polynomial<6>(c, 0.03125 * z - 1.0);
}
__device__ __forceinline__ double near_j1(double z) {
    constexpr double c[] = {
        0.00019498936987128658, -0.00026975227467220035, 0.00015860016737720338, -5.4080032362678994e-05,
        1.2242178584045354e-05, -1.9890937412906723e-06, 2.4423842496600584e-07, -2.3521291690390297e-08,
        1.8426127501429105e-09, -1.1768979654427052e-10};
    return (z - 14.681970642123893) * (z - 49.21845632169461) * polynomial<5>(c, 0.03125 * z - 1.0);
}
__device__ __forceinline__ double j0(float x) {
    const double z = double(x) * double(x);
    return z <= 64.0 ? near_j0(z) : j0(double(x));
}
__device__ __forceinline__ double j1(float x) {
    const double z = double(x) * double(x);
    return z <= 64.0 ? double(x) * near_j1(z) : j1(double(x));
}
// The same, or NaN beyond 8.
__device__ __forceinline__ double quick_j0(float x) {
    const double z = double(x) * double(x);
    return z <= 64.0 ? near_j0(z) : limits<double>::quiet_nan();
}
__device__ __forceinline__ double quick_j1(float x) {
    const double z = double(x) * double(x);
    return z <= 64.0 ? double(x) * near_j1(z) : limits<double>::quiet_nan();
}
__device__ __forceinline__ double y0(float number) {
    const double x = number;
    if (!(x > 0.0 && x <= 8.5)) return y0(x);
    if (x <= 0.375) {
        const double t = x * x * (2.0 / (0.375 * 0.375)) - 1.0;
        constexpr double rest[] = {
            -0.06139565230264536, 0.012329549313291601, -7.890696186508276e-05, 1.8629968925447904e-07,
            -2.3118483076343526e-10};
        constexpr double first[] = {
            0.9824989719110108, -0.01742408172103789, 7.679599022546724e-05, -1.5021254503761873e-07,
            1.651735993929545e-10};
        return 0.6366197723675814 * log(x) * polynomial<1>(first, t) + polynomial<2>(rest, t);
    }
    if (x <= 1.0) {
        constexpr double c[] = {
            0.9926622321951831, -0.19433664569151207, 0.043113719756707976, -0.016668709741297173, 0.006232167495576189,
            -0.0023568100108966694, 0.0009156732009344169, -0.0003637478680017501, 0.00015182746266017227,
            -6.212575509105933e-05, 1.825105825570086e-05, -7.5215069190990394e-06, 8.524657846544954e-06,
            -3.618497272071425e-06};
        return (x - 0.8935769662791675) * polynomial<2>(c, (x - 0.6875) * (1.0 / 0.3125));
    }
    if (x <= 2.5) {
        constexpr double c[] = {
            0.46549262864690605, 0.19047973968356177, -0.17173688892447925, 0.012507369798674943, 0.00020333943617409952,
            0.001648646525925297, -0.0006931247675423906, 0.00023094277772405027, -8.672646458593291e-05,
            3.4598423348035145e-05, -1.3439597139317483e-05, 3.8854415434219864e-06, -1.5190005373788653e-06,
            1.5150311431421771e-06, -6.074061175641378e-07};
        return polynomial<4>(c, (x - 1.75) * (1.0 / 0.75));
    }
    if (x <= 5.5) {
        constexpr double c[] = {
            -0.4002860728145819, 0.0836581062029545, 0.12966856789434997, -0.02436288601017465, -0.010838071834951815,
            0.0015796322798826876, 0.0005635836724093608, -8.540622106633789e-05, -8.109180482554049e-06,
            -3.9772384940741557e-07, 1.3370775447286314e-06, -4.0642246613197145e-07};
        return (x - 3.957678419314858) * polynomial<4>(c, (x - 4.0) * (1.0 / 1.5));
    }
    constexpr double c[] = {
        0.3015621640942719, -0.019263090699948887, -0.10976215096355967, 0.00863845959363154, 0.011296042038132005,
        -0.0008844865873875475, -0.0005405693227869183, 3.921176468237403e-05, 1.529871027918844e-05,
        -9.850763562868086e-07, -2.7336555666720064e-07};
    return (x - 7.086051060301773) * polynomial<4>(c, (x - 7.0) * (1.0 / 1.5));
}
__device__ __forceinline__ double y1(float number) {
    const double x = number;
    if (!(x > 0.0 && x <= 10.0)) return y1(x);
    if (x <= 0.375) {
        const double t = x * x * (2.0 / (0.375 * 0.375)) - 1.0;
        constexpr double rest[] = {
            -0.6501373704760645, -0.013250955839718179, 0.00026562020483943377, -1.0203212674828723e-06,
            1.7425517419611969e-09};
        constexpr double first[] = {
            0.4956183245105552, -0.0043688385550467845, 1.2818124781259491e-05, -1.8793089123100073e-08,
            1.6527045782394166e-11};
        return 0.6366197723675814 * log(x) * x * polynomial<1>(first, t) + polynomial<1>(rest, t) / x;
    }
    if (x <= 1.5) {
        constexpr double c[] = {
            -0.8373973350416809, 0.5236420503745314, -0.17534533792848653, 0.13058481663024063, -0.08615123120847362,
            0.05184406020900365, -0.03126360876215828, 0.018834895980031064, -0.011115810488335216, 0.006680905491963092,
            -0.004811283408792785, 0.002888935613948733, 7.902886027678713e-05, -4.703047488490643e-05,
            -0.002522637880103907, 0.0015137641558324282, 0.0012597249711870434, -0.0007558703067188264,
            -0.000566729217495908, 0.00034006569945015043};
        return polynomial<6>(c, (x - 0.9375) * (1.0 / 0.5625));
    }
    if (x <= 3.9) {
        constexpr double c[] = {
            0.45267678108085013, -0.18251222394691322, -0.045176124499923385, 0.009429971654806768, 0.007086622576296517,
            -0.0024691051589372137, 0.0006754262321215168, -0.00032733377628241044, 0.00015698540791805266,
            -7.517808737377537e-05, 3.3465546497345904e-05, -8.007355952926622e-06, 3.5798114548943968e-06,
            -6.223859781441906e-06, 2.7712955161972476e-06};
        return (x - 2.197141326031017) * polynomial<3>(c, (x - 2.7) * (1.0 / 1.2));
    }
    if (x <= 7.0) {
        constexpr double c[] = {
            -0.3396602771106635, 0.05177599867051607, 0.12178032001429198, -0.016145020897207, -0.012414523578364542,
            0.0013621465649518712, 0.0006385199979700339, -6.331675082320232e-05, -1.805075131921661e-05,
            1.2370374560799556e-06, 4.4454597595476824e-07};
        return (x - 5.429681040794135) * polynomial<4>(c, (x - 5.45) * (1.0 / 1.55));
    }
    constexpr double c[] = {
        0.27257374839077037, -0.011093464539742574, -0.09897915111324389, 0.005523770054092621, 0.010405431211866852,
        -0.0005967911350563853, -0.0005132642880578298, 2.8074816976039102e-05, 1.4797781213032409e-05,
        -7.262531626665155e-07, -2.703642301816308e-07};
    return (x - 8.596005868331168) * polynomial<4>(c, (x - 8.5) * (1.0 / 1.5));
}

// J_n(x) and I_n(x) of any order n of at least 2: the power series, beyond it the recurrence (Abramowitz and Stegun, 9.1.27),
// which loses digits where n is larger than x, and the asymptotic series. In single precision that of order 2 alone is quick.
__device__ __forceinline__ double first_term(int n, double x) {
    double result = 1.0;
    for (int k = 1; k <= n; ++k) result *= 0.5 * x / k;
    return result;
}
__device__ __forceinline__ double j(int n, double x) {
    if (!(fabs(x) > n + 1)) return first_term(n, x) * power_series(n, -0.25 * x * x);
    double before = j0(x), result = j1(x);
    for (int k = 1; k < n; ++k) {
        const double next = 2.0 * k / x * result - before;
        before = result, result = next;
    }
    return result;
}
__device__ __forceinline__ double j(int n, float x) {
    const double z = double(x) * double(x);
    return n == 2 && z > 4.0 && z <= 64.0 ? 2.0 * near_j1(z) - near_j0(z) : j(n, double(x));
}
__device__ __forceinline__ double high_i(int n, double x) {
    const double size = fabs(x), enough = minimum(maximum(30.0, double(n) * n), 600.0);
    if (!(size > enough)) return first_term(n, x) * power_series(n, 0.25 * x * x);
    const double sign = n % 2 && x < 0.0 ? -1.0 : 1.0, half = exp(0.5 * size);
    return size == limits<double>::infinity() ? sign * size : sign * half * large_i(n, size) * half;
}
__device__ __forceinline__ double high_i(int n, float x) {
    return n == 2 && fabs(x) > 2.0f ? i0(x) - 2.0 * i1_over(x) : high_i(n, double(x));
}

// The mean of (1 - cos t)^n e^(-x (1 - cos t)) over all t, for x >= 0: that of 0 is e^-x I_0(x), which less that of 1 is
// e^-x I_1(x), and the derivative of each is -1 times the next. A sum of positive terms: Kummer's series of
// e^-2x 1F1(1/2; n + 1; 2x), and of large x Watson's expansion of the integral over 1 - cos t.
__device__ __forceinline__ double moment(int n, double x, double share = 1e-18) {
    double result = 1.0, term = 1.0, sum = 1.0;
    if (!(x > 20.0 + n)) {
        for (int k = 1; k <= n; ++k) result *= (2.0 * k - 1.0) / k;
        for (double k = 1.0; term > share * sum; k += 1.0) sum += term *= 2.0 * x * (k - 0.5) / ((n + k) * k);
        return result * exp(-2.0 * x) * sum;
    }
    for (int k = 1; k <= n; ++k) result *= (k - 0.5) / x;
    for (double k = 1.0; k < 30.0 && term > share * sum; k += 1.0) sum += term *= (k - 0.5) * (n + k - 0.5) / (2.0 * x * k);
    return result * sum / sqrt(6.283185307179586 * x);
}
__device__ __forceinline__ double moment(int n, float x) {
    return n == 1 && x <= 8.0f ? scaled_i(0, x) - scaled_i(1, x) : moment(n, double(x), 1e-9);
}

// The spherical Bessel function j_n(pi x): the power series (Abramowitz and Stegun, 10.1.2), and beyond it the recurrence
// (10.1.19), which loses digits where n is larger than pi x.
template <typename N>
__device__ __forceinline__ N spherical_from(int n, N turn, N sine, N cosine) {
    N before = sine / turn, result = (before - cosine) / turn;
    for (int k = 1; k < n; ++k) {
        const N next = (2.0 * k + 1.0) * result / turn - before;
        before = result, result = next;
    }
    return result;
}
template <typename N>
__device__ __forceinline__ N near_spherical(int n, N turn) {
    N result = power_series(n + 0.5, -0.25 * turn * turn);
    for (int k = 1; k <= n; ++k) result *= turn / (2.0 * k + 1.0);
    return result;
}
__device__ __forceinline__ double spherical(int n, double x) {
    const double turn = 3.141592653589793 * x;
    return !(fabs(turn) > n + 2) ? near_spherical(n, turn) : spherical_from(n, turn, sinpi(x), cospi(x));
}
template <typename Complex>
__device__ __forceinline__ Complex spherical(int n, Complex x) {
    const Complex turn = 3.141592653589793 * x;
    return !(magnitude(turn) > n + 2) ? near_spherical(n, turn) : spherical_from(n, turn, sin(turn), cos(turn));
}

}  // namespace bessel
