"""Complex numbers: functions' values and special values, arithmetic, and where they enter and leave."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

FUNCTIONS = (
    "exp expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh square"
).split()
#: Units in the last place, of the absolute value, that a result may be wrong by.
ULPS = 4
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _samples(dtype: Any) -> np.ndarray:
    """Of all sizes, near the unit circle, with large real parts and with small ones."""
    rng = np.random.default_rng(0)
    reach = 30 if dtype == np.complex64 else 300
    turn = np.exp(1j * rng.uniform(-np.pi, np.pi, 3000))
    sizes = np.exp(rng.uniform(-reach, reach, 3000))
    near = 1 + rng.normal(size=3000) * 10.0 ** rng.uniform(-16, 0, 3000)
    far = rng.uniform(-800, 800, 1000) + 1j * rng.normal(size=1000)
    flat = rng.normal(size=1000) + 1j * 10.0 ** rng.uniform(-reach, reach, 1000)
    return np.concatenate([normal(3000), sizes * turn, near * turn, far, flat, 1j * flat]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_functions_are_accurate(device: ck.Device, dtype: Any) -> None:
    """Compared with the next wider type of the C library."""
    wide = np.complex128 if dtype == np.complex64 else np.clongdouble
    if np.finfo(wide).eps > np.finfo(dtype).eps / 100:
        pytest.skip("long double is double here")
    x, limits = _samples(dtype), np.finfo(dtype)
    together = ck.fuse(lambda x: [getattr(ck, name)(x) for name in FUNCTIONS])
    with np.errstate(all="ignore"):
        for name, made in zip(FUNCTIONS, together(ck.asarray(x)), strict=True):
            want, got = getattr(np, name)(x.astype(wide)), made.numpy()
            if name == "log1p":  # NumPy's loses the digits of small arguments
                small = abs(x) < 1e-3
                z = x.astype(wide)[small]
                want[small] = z - z**2 / 2 + z**3 / 3 - z**4 / 4 + z**5 / 5 - z**6 / 6
            # A GPU flushes parts that are not normal floats.
            fair = (abs(want) < limits.max / 4) & (abs(want) > limits.smallest_normal / limits.eps)
            error = abs(got.astype(wide) - want)[fair] / abs(want[fair]) / limits.eps
            assert error.max() <= ULPS, f"{name}: {error.max()} at {x[fair][error.argmax()]}"


#: Where NumPy's parts differ in sign or are NaN, and C99 leaves that open or asks for what cukern makes.
OPEN = {"expm1", "square"}
#: The part of x beside whose infinity the other part of the result is 0. The Array API gives it the sign of the other
#: part of x, C99 and NumPy that of sin(2 * that part).
AT_INFINITY = {"tanh": ("real", "imag"), "tan": ("imag", "real")}


def test_special_values_are_numpys(device: ck.Device) -> None:
    x = np.array([complex(a, b) for a, b in itertools.product(SPECIAL, SPECIAL)])
    names = [name for name in FUNCTIONS if name not in OPEN]
    together = ck.fuse(lambda x: [getattr(ck, name)(x) for name in names])
    with np.errstate(all="ignore"):
        for name, made in zip(names, together(ck.asarray(x)), strict=True):
            want, got = getattr(np, name)(x), made.numpy()
            if name in AT_INFINITY:
                infinite, finite = AT_INFINITY[name]
                far = np.isinf(getattr(x, infinite)) & np.isfinite(getattr(x, finite))
                assert not getattr(want, finite)[far].any()
                getattr(want, finite)[far] = np.copysign(0, getattr(x, finite)[far])
            for part in ("real", "imag"):
                a, b = getattr(got, part), getattr(want, part)
                # C99 does not specify the sign of an infinity beside NaN.
                beside_nan = np.isnan(got) & np.isinf(a)
                same = np.isclose(a, b, rtol=1e-12, atol=0, equal_nan=True) | (beside_nan & np.isinf(b))
                assert same.all(), (name, x[~same], got[~same], want[~same])
                signed = (np.signbit(a) == np.signbit(b)) | np.isnan(want) | np.isnan(b)
                assert signed.all(), (name, x[~signed], got[~signed], want[~signed])


def test_infinities_of_products_and_quotients(device: ck.Device) -> None:
    """As C99's Annex G: what has an infinite part is infinite, also where the other part is NaN."""
    inf, nan = np.inf, np.nan
    x = np.array([complex(inf, nan), complex(inf, inf), complex(nan, inf), 1 + 1j, 0, 1 + 1j])
    y = np.array([1 + 2j, complex(1, -inf), complex(2, 1), 0, complex(inf, nan), complex(inf, nan)])
    product, quotient = ck.asarray(x) * ck.asarray(y), ck.asarray(x) / ck.asarray(y)
    assert ck.isinf(product).tolist() == [True, True, True, False, False, True]
    assert ck.isinf(quotient).tolist() == [True, False, True, True, False, False]
    assert quotient.numpy()[4] == quotient.numpy()[5] == 0


def test_parts_of_products_with_infinities_and_nan(device: ck.Device) -> None:
    """As C99's Annex G: beside an infinity NaN counts as 0, and 0 times infinity is NaN."""
    inf, nan = np.inf, np.nan
    made = (ck.asarray([complex(inf, 1)] * 2) * ck.asarray([complex(2, nan), complex(nan, 2)])).numpy()
    np.testing.assert_array_equal(made.real, [inf, nan])
    np.testing.assert_array_equal(made.imag, [nan, inf])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_products_and_conjugates_of_many_are_those_of_each(device: ck.Device, dtype: Any) -> None:
    """Bit for bit: the host makes many at once, those among which one has NaN with care, and the last one by one."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((2, 700, 2)) @ [1, 1j]).astype(dtype)
    special = np.array([complex(a, b) for a, b in itertools.product(SPECIAL, SPECIAL)]).astype(dtype)
    x[280 : 280 + special.size], y[690] = special, complex(np.nan, np.inf)
    a, b = ck.asarray(x), ck.asarray(y)
    calls = ((a * b, lambda k: a[k] * b[k]), *((f(a), lambda k, f=f: f(a[k])) for f in (ck.square, ck.conj)))
    for many, one in calls:
        each = np.array([one(k).numpy() for k in range(x.size)])
        np.testing.assert_array_equal(many.numpy(), each)


@pytest.mark.parametrize(("dtype", "x"), [(np.complex64, 89), (np.complex128, 710)])
def test_exp_of_which_one_part_is_finite(device: ck.Device, dtype: Any, x: int) -> None:
    made = ck.exp(ck.asarray([complex(x, 1.57)], dtype=dtype)).numpy()[0]
    angle = np.longdouble(made.real.dtype.type(1.57))
    want = np.exp(np.longdouble(x)) * np.cos(angle)
    assert made.imag == np.inf
    np.testing.assert_allclose(np.longdouble(made.real), want, rtol=1e-4 if dtype == np.complex64 else 1e-12)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_products_and_quotients_of_all_sizes(device: ck.Device, dtype: Any) -> None:
    rng, reach = np.random.default_rng(0), 35 if dtype == np.complex64 else 305
    x, y = ((normal(2000, seed=k) * 10.0 ** rng.uniform(-reach, reach, 2000)).astype(dtype) for k in (0, 1))
    a, b = ck.asarray(x), ck.asarray(y)
    wide = np.complex128 if dtype == np.complex64 else np.clongdouble
    limits = np.finfo(dtype)
    with np.errstate(all="ignore"):
        for got, want in ((a * b, x.astype(wide) * y), (a / b, x.astype(wide) / y)):
            fair = (abs(want) < limits.max / 4) & (abs(want) > limits.smallest_normal / limits.eps)
            error = abs(got.numpy() - want)[fair] / abs(want[fair])
            assert fair.sum() > 800 and error.max() < 4 * limits.eps


def test_powers(device: ck.Device) -> None:
    x, y = normal(200), normal(200, seed=1)
    a, b = ck.asarray(x), ck.asarray(y)
    assert_close(a**b, x**y)
    assert_close(a**3, x**3)
    assert_close(a**-2, x**-2.0)
    assert_close(2**a, 2**x)
    assert_close(a ** ck.asarray(np.full(200, 7)), x**7)
    zero = ck.asarray(np.zeros(3, complex)) ** ck.asarray(np.array([0, 2, -1 + 0j]))
    assert zero.numpy()[:2].tolist() == [1, 0] and np.isnan(zero.numpy()[2])


def test_operators_and_numbers(device: ck.Device) -> None:
    z, r = normal(4), np.arange(4.0) + 1
    for x, y, u, v in ((ck.asarray(z), ck.asarray(r), z, r), (ck.asarray(r), 2 - 1j, r, 2 - 1j)):
        for got, want in (
            (x + y, u + v),
            (x - y, u - v),
            (x * y, u * v),
            (x / y, u / v),
            (y - x, v - u),
            (y / x, v / u),
        ):
            assert_close(got, want)
            assert got.dtype == ck.complex128
    assert (
        (ck.ones(1) + 1j).dtype == (ck.ones(1, "int8") * 1j).dtype == ck.asarray([1j]).dtype == ck.complex64
    )
    x = ck.array(z)
    x *= 2
    x[1:3] = 1j
    x[0] = ck.asarray(2.0)
    assert_close(x, [2, 1j, 1j, 2 * z[3]])
    assert (x == 1j).tolist() == [False, True, True, False] and 2 in x
    assert (
        complex(x[1]) == 1j
        and x[1].item() == 1j
        and repr(x[1:2]).startswith("Array([0.+1.j], dtype=complex128")
    )


def test_parts_are_views(device: ck.Device) -> None:
    x = ck.asarray(normal(3, 4))
    assert ck.shares_memory(x.real, x) and ck.shares_memory(ck.imag(x), x)
    x.imag[1] = 5.0
    assert_close(x.numpy().imag[1], np.full(4, 5.0))
    assert_close(ck.angle(x), np.angle(x.numpy()))
    assert_close(x.conj().T, x.numpy().conj().T)
    real = ck.asarray([1.0, -1.0])
    assert real.real is real and real.imag.tolist() == [0.0, 0.0]
    assert_close(ck.angle(real), np.angle([1.0, -1.0]))
    assert ck.isreal(ck.asarray([1j, 1])).tolist() == [False, True]
    assert ck.iscomplex(ck.asarray([1j, 1])).tolist() == [True, False]


def test_order_is_numpys(device: ck.Device) -> None:
    """By real parts, then by imaginary ones; NaN last."""
    nan = np.nan
    special = [
        complex(1, nan),
        complex(nan, 1),
        complex(nan, nan),
        1 + 2j,
        1 - 2j,
        0,
        complex(nan, -1),
        complex(0, nan),
    ]
    x = np.array([special, list(np.round(normal(8)))])
    np.testing.assert_array_equal(ck.sort(ck.asarray(x)).numpy(), np.sort(x))
    np.testing.assert_array_equal(ck.argsort(ck.asarray(x[1])).numpy(), np.argsort(x[1], kind="stable"))
    y = ck.asarray(x[1])
    for name in ("max", "argmin"):
        assert_close(getattr(ck, name)(y), getattr(np, name)(x[1]))
    assert np.isnan(ck.max(ck.asarray(x[0])).item())
    assert_close(y < 0.5j, x[1] < 0.5j)


def test_order_of_parts_of_32_bits(device: ck.Device) -> None:
    """Zeros of both signs are equal, and their signs stay; infinities, and what is beside NaN, have places too."""
    parts = np.float32([0, -0.0, 1, -1, 1e-45, -1e-45, np.inf, -np.inf, np.nan])
    x = np.repeat(parts, 9).astype(np.complex64).reshape(3, 27)
    x.imag = np.tile(parts, 9).reshape(3, 27)
    places = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(ck.argsort(ck.asarray(x)).numpy(), places)
    wanted = np.take_along_axis(x, places, 1)
    np.testing.assert_array_equal(ck.sort(ck.asarray(x)).numpy().view(np.uint64), wanted.view(np.uint64))


@pytest.mark.thorough
def test_order_of_other_functions(device: ck.Device) -> None:
    x = np.round(normal(8))
    y = ck.asarray(x)
    np.testing.assert_array_equal(ck.sort(y, descending=True).numpy(), np.sort(x)[::-1])
    assert_close(ck.min(y), x.min())
    assert_close(ck.argmax(y), x.argmax())
    assert_close(ck.unique_values(ck.asarray([1j, 2, 1j])), [1j, 2])


def test_reductions_and_scans(device: ck.Device) -> None:
    x = normal(3, 700)
    a = ck.asarray(x)
    for name in ("sum", "mean", "var", "cumsum"):
        assert_close(getattr(ck, name)(a, axis=1), getattr(np, name)(x, axis=1), rtol=1e-10)
    assert_close(ck.sum(a.astype("complex64")), x.sum(), rtol=1e-5)
    assert ck.var(a, axis=1).dtype == ck.float64
    assert ck.any(a).item() is True and ck.all(ck.asarray([1j, 0])).item() is False


@pytest.mark.thorough
def test_reductions_that_ignore_nan_or_take_a_mask(device: ck.Device) -> None:
    x = normal(3, 700)
    a = ck.asarray(x)
    for name in ("prod", "std", "nansum", "nanmean", "nanvar"):
        for axis in (0, 1):
            assert_close(getattr(ck, name)(a, axis=axis), getattr(np, name)(x, axis=axis), rtol=1e-10)
    assert_close(ck.cumprod(a[:, :20], axis=1), np.cumprod(x[:, :20], axis=1))
    assert_close(ck.var(a, correction=1, where=a.real > 0), np.var(x, ddof=1, where=x.real > 0))


def test_products_of_arrays(device: ck.Device) -> None:
    x, y = normal(2, 3), normal(3, 2, seed=1)
    a, b = ck.asarray(x), ck.asarray(y)
    for got, want in (
        (a @ b, x @ y),
        (ck.einsum("ij,jk->ik", a, b), x @ y),
        (ck.vdot(a, b), np.vdot(x, y)),
        (ck.vecdot(a, b.T), (x.conj() * y.T).sum(-1)),
        (ck.vecmat(b[:, 0], b), y[:, 0].conj() @ y),
        (ck.dot(a, b), np.dot(x, y)),
        (ck.outer(a[0], b[0]), np.outer(x[0], y[0])),
        (a @ b.real, x @ y.real),
        (ck.kron(a, b), np.kron(x, y)),
    ):
        assert_close(got, want)


def test_moves_and_indices(device: ck.Device) -> None:
    """Of elements that are wider than any integer."""
    x = normal(4, 5)
    a = ck.asarray(x)
    for got, want in (
        (a.T[::2].contiguous(), x.T[::2]),
        (a[[3, 0, 3]], x[[3, 0, 3]]),
        (a[a.real > 0], x[x.real > 0]),
        (ck.roll(a, 2), np.roll(x, 2)),
        (ck.pad(a, 1, constant_values=1j), np.pad(x, 1, constant_values=1j)),
        (ck.where(a.imag > 0, a, 1j), np.where(x.imag > 0, x, 1j)),
        (ck.concat([a, a.real]), np.concatenate([x, x.real])),
        (ck.full((2, 3), 2j, dtype="complex128"), np.full((2, 3), 2j)),
        (ck.zeros((2, 5), "complex128").at[[0, 0]].add(a[:2]), np.stack([x[0] + x[1], 0 * x[0]])),
        (
            ck.take_along_axis(a, ck.argsort(a.real, axis=1), axis=1),
            np.take_along_axis(x, np.argsort(x.real), 1),
        ),
        (ck.asarray([a[0], a[1]]), x[:2]),
    ):
        assert_close(got, want)


def test_a_kernel_of_ones_own(device: ck.Device) -> None:
    mandelbrot = ck.Kernel(
        """
        extern "C" __global__ void << name >>(const << elem >>* c, << elem >> start, << elem >>* z, int* steps, int n) {
            int i = blockIdx.x * << block >> + threadIdx.x;
            if (i >= n) return;
            << elem >> at = start;
            int k = 0;
            for (; k < 20 && abs(at) < 2; ++k) at = at * at + c[i];
            z[i] = 2 * conj(at) / exp(at) - real(at), steps[i] = k;
        }""",
        name="mandelbrot",
    )
    c = np.array([0, 1 + 1j, -1, 0.3j])
    for dtype in ("complex64", "complex128"):
        z, steps = ck.empty(4, dtype), ck.empty(4, "int32")
        mandelbrot(ck.asarray(c.astype(dtype)), 0.1j, z, steps, 4)
        want, count = np.full(4, 0.1j), np.zeros(4, int)
        for _ in range(20):
            going = abs(want) < 2
            want, count = np.where(going, want * want + c, want), count + going
        assert steps.tolist() == count.tolist()
        assert_close(z, 2 * want.conj() / np.exp(want) - want.real, rtol=1e-4)
    with pytest.raises(
        ck.LaunchError, match="argument c: expected dtype complex128 for const complex<double>"
    ):
        mandelbrot(ck.zeros(4), 0, z, steps, 4, elem="complex128")
    with pytest.raises(ck.LaunchError, match="argument n: expected a number, got complex 1j"):
        mandelbrot(ck.asarray(c), 0, z, steps, 1j)


def test_random_numbers(device: ck.Device) -> None:
    made = ck.random.default_rng(0).normal(size=20000, dtype="complex64")
    assert made.dtype == ck.complex64
    assert abs(ck.mean(made).item()) < 0.03 and abs(ck.var(made.real).item() - 0.5) < 0.03
    assert abs(ck.var(made.imag).item() - 0.5) < 0.03 and abs(ck.mean(made.real * made.imag).item()) < 0.02
    assert ck.random.default_rng(0).normal(1j, 0, size=2, dtype="complex128").tolist() == [1j, 1j]


#: A holomorphic function, and those that are not.
PLAIN = "log conj abs angle real imag".split()
UNARY = "exp sqrt tan tanh asin acosh atan asinh acos atanh sinh cosh cos sin square reciprocal log1p".split()


def test_derivatives_of_functions(device: ck.Device) -> None:
    """To second order, by parts; also of a real number beside a complex one."""
    z, r = ck.asarray(0.6 * normal(3)), ck.asarray(np.array([0.5, 1.5, 0.7]))
    both = ck.fuse(lambda z, r: [*(getattr(ck, name)(z) for name in PLAIN), z * r])
    assert gradcheck(both, [z, r], order=2)


@pytest.mark.thorough
def test_derivatives_of_all_functions(device: ck.Device) -> None:
    z, w = ck.asarray(0.6 * normal(3)), ck.asarray(normal(3, seed=1))
    r = ck.asarray(np.array([0.5, 1.5, 0.7]))
    assert gradcheck(ck.fuse(lambda z: [getattr(ck, name)(z) for name in UNARY]), [z], order=2)
    mixed = ck.fuse(lambda z, w, r: [ck.sign(z) * w, r / z, ck.pow(z, w), r**z * 2j, ck.where(r > 1, z, r)])
    assert gradcheck(mixed, [z, w, r], order=2)


def test_derivatives_of_arrays(device: ck.Device) -> None:
    b = ck.asarray(np.random.default_rng(2).normal(size=(3, 2)))
    both = [ck.asarray(normal(2, 3)), b]
    assert gradcheck(lambda a, b: [a @ b, a.real[0] * a.imag], both, order=2)


@pytest.mark.thorough
def test_derivatives_of_more_functions_of_arrays(device: ck.Device) -> None:
    def several(a: Any, b: Any) -> list[Any]:
        products = [ck.vdot(a, b), ck.prod(a, axis=1), ck.var(a), ck.cumprod(a, axis=1)]
        return [*products, ck.sort(a, axis=1), a.at[0].add(b[:, 0]), a[:, [0, 0, 2]]]

    b = ck.asarray(np.random.default_rng(2).normal(size=(3, 2)))
    assert gradcheck(several, [ck.asarray(normal(2, 3)), b], order=2)


def test_descent_goes_against_the_gradient(device: ck.Device) -> None:
    target = ck.asarray([3 + 1j, -2j])
    x = ck.zeros(2, "complex64")
    for _ in range(50):
        x = x - 0.1 * ck.grad(lambda x: (abs(x - target) ** 2).sum())(x)
    assert_close(x, target.numpy(), rtol=1e-3)
    with pytest.raises(
        TypeError, match="target: the gradient of an array of complex64.*needs output_gradients"
    ):
        ck.grad(lambda x: x.sum())(x)
    tangent = ck.jvp(lambda x: x * x, [target], [ck.asarray([1j, 1.0])])[1]
    assert_close(tangent, 2 * target.numpy() * np.array([1j, 1]))


def test_derivatives_of_powers(device: ck.Device) -> None:
    """By base and exponent, which are complex numbers or constants."""
    x, y = (ck.asarray(one, dtype="complex128") for one in ([1 + 2j, 2 - 1j], [0.5 + 1j, 2.5 - 0.5j]))
    assert gradcheck(lambda x, y: x**y, [x, y], order=2)
    for exponent in (2.5, -3, 1.5 + 1j):
        assert gradcheck(lambda x, n=exponent: x**n, [x], order=2)


def test_numbers_whose_absolute_value_overflows(device: ck.Device) -> None:
    large = complex(1.5e308, 1.5e308)  # whose parts do not
    x = np.array([1 + 1j, 0, large])
    assert (ck.asarray(x[:2]) + large).tolist() == (x[:2] + large).tolist()
    assert (ck.asarray(x) == large).tolist() == [False, False, True]
    narrow = (ck.ones(1, dtype="complex64") + large).numpy()
    assert np.isinf(narrow.real).all() and np.isinf(narrow.imag).all()


def test_programs_of_products_with_infinities_and_nan(device: ck.Device) -> None:
    """Of many elements, some of which have products that are infinite where their parts are not numbers."""
    z = np.array([complex(a, b) for a, b in itertools.product(SPECIAL, SPECIAL)] * 8)
    z[len(z) // 2 :] = normal(len(z) - len(z) // 2)

    def size(z: ck.Array, w: ck.Array) -> ck.Array:
        return abs(z * w - z * z + 0.5)

    both = [ck.asarray(x, device=device) for x in (z, z[::-1].copy())]
    np.testing.assert_array_equal(ck.fuse(size)(*both).numpy(), size(*both).numpy())
