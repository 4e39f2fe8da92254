"""Structs of kernels: NumPy's layout is that of both compilers; values, records and fields; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck

Inner = ck.struct("Inner", small="int8", wide="double")
Outer = ck.struct(
    "Outer",
    mass="float",
    position="float4",
    counts=("int16", (2, 3)),
    pair="half2",
    three="double3",
    inner=(Inner, 2),
    flag=ck.bool,
    color="uchar3",
    number="long long",
    half=ck.float16,
)
#: Bytes between and after fields where C++ has none of itself; a struct of a dtype has no name.
Gaps = ck.struct(
    "Gaps",
    np.dtype(
        {
            "names": ["late", "early", "part"],
            "formats": ["f4", "i1", np.dtype([("x", "i1"), ("y", "f8", 2)], align=True)],
            "offsets": [12, 0, 24],
            "itemsize": 64,
        }
    ),
)


def _leaves(dtype: np.dtype[Any], name: str, offset: int) -> list[tuple[str, int]]:
    """Each field of a dtype, and of those within it, with its offset."""
    found = [(name, offset)]
    base = dtype.subdtype[0] if dtype.subdtype else dtype
    for field, (kind, at, *_) in (base.fields or {}).items():
        index = "[0]" * len(dtype.shape)
        found += _leaves(kind, f"{name}{index}.{field}", offset + at)
    return found


def test_offsets_are_those_of_the_compiler(device: ck.Device) -> None:
    places = [(s, *leaf) for s in (Outer, Gaps) for leaf in _leaves(s.dtype, "value", 0)]
    measured = [f"(unsigned char*)&{leaf} - (unsigned char*)&value" for _, leaf, _ in places]
    bodies = [
        f"{{ {s.name} value; at[{i}] = {text}; }}\n"
        for i, ((s, *_), text) in enumerate(zip(places, measured, strict=True))
    ]
    sizes = [
        f"at[{19 + i}] = {word}({s.name});\n"
        for i, (word, s) in enumerate(
            (word, s) for word in ("sizeof", "alignof") for s in (Inner, Outer, Gaps)
        )
    ]
    kernel = ck.Kernel(
        "#include <cuda_fp16.h>\n"
        + Inner.source
        + Outer.source
        + Gaps.source
        + f"__global__ void measure(long long* at) {{\n{''.join(bodies)}{''.join(sizes)}}}",
        block=1,
        plain=True,
    )
    at = ck.zeros(25, "int64")
    kernel(at, grid=1)
    assert at.tolist()[:19] == [offset for *_, offset in places]
    structs = (Inner, Outer, Gaps)
    assert at.tolist()[19:] == [s.dtype.itemsize for s in structs] + [s.alignment for s in structs]


def test_values_records_and_fields(device: ck.Device) -> None:
    kernel = ck.Kernel(
        "#include <cuda_fp16.h>\n"
        + Inner.source
        + Outer.source
        + """
__global__ void change(Outer* all, const Outer* old, Outer by) {
    Outer one = old[threadIdx.x];
    one.mass += by.mass;
    one.position.w = by.inner[1].wide;
    one.counts[1][2] = by.counts[0][1];
    one.flag = !one.flag;
    all[threadIdx.x] = one;
}""",
        block=3,
        plain=True,
    )
    records = np.zeros(3, Outer.dtype)
    records["mass"], records["position"], records["flag"] = [1, 2, 3], np.arange(12).reshape(3, 4), [1, 0, 1]
    by = Outer(2, counts=[[0, 7, 0], [0, 0, 0]], inner=[(1, 0.5), (2, 2.5)])
    old, new = Outer.asarray(records), Outer.asarray(np.zeros_like(records))
    kernel(new, old, by, grid=1)
    records["mass"] += 2
    records["position"][:, 3], records["counts"][:, 1, 2], records["flag"] = 2.5, 7, [0, 1, 0]
    np.testing.assert_array_equal(Outer.numpy(new), records)
    assert Outer.field(new, "position")[1].tolist() == [4, 5, 6, 2.5]
    assert Outer.field(new, "counts").shape == (3, 2, 3) and Outer.field(new, "flag").dtype == np.bool_
    Outer.field(new, "mass")[...] = 9
    assert Outer.numpy(new)["mass"].tolist() == [9, 9, 9]
    assert Outer.numpy(Outer.asarray(by))["mass"] == 2 and Outer.asarray([]).shape == (0, 128)


def test_a_field_may_be_an_array_of_one_element() -> None:
    One = ck.struct("One", x=("int", 1))
    assert One.dtype["x"].shape == (1,) and One.source == "struct One { int x[1]; };"


def test_no_parts_of_dtypes_are_lost() -> None:
    assert Gaps.dtype.fields is not None and Gaps.dtype.fields["late"] == (np.dtype("f4"), 12)
    assert Gaps.source == (
        "struct Gaps { signed char early; unsigned char gap0_[11]; float late; unsigned char gap1_[8]; "
        "struct { signed char x; double y[2]; } part; unsigned char gap2_[16]; };"
    )
    assert repr(Inner).startswith("Struct('Inner', ") and Inner(wide=3).tolist() == (0, 3.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ck.struct("a b", x="int"), ValueError, "name: expected a name of C.., got "),
        (lambda: ck.struct("S"), ValueError, "S: expected at least one field"),
        (lambda: ck.struct("S", np.dtype("f4")), TypeError, "S: expected a NumPy structured dtype"),
        (lambda: ck.struct("S", Inner.dtype, x="int"), TypeError, "S: expected a dtype, or fields by name"),
        (lambda: ck.struct("S", x="float5"), TypeError, "S: field x: 'float5' is not a dtype"),
        (lambda: ck.struct("S", x="complex64"), TypeError, "vector type such as float2, got complex64"),
        (lambda: ck.struct("S", x=("int", 2, 3)), TypeError, r"S: field x: expected \(type, lengths\)"),
        (
            lambda: ck.struct("S", x=("int", 0)),
            ValueError,
            "S: field x: expected lengths of at least 1, got 0",
        ),
        (lambda: ck.struct("S", np.dtype([("a-b", "f4")])), ValueError, "names of C.., got 'a-b'"),
        (
            lambda: ck.struct("S", np.dtype([("x", ">f4")])),
            TypeError,
            "S: field x: expected one of .* got >f4",
        ),
        (
            lambda: ck.struct("S", np.dtype([("a", "i1"), ("x", "f4")])),
            ValueError,
            r"S: field x begins at byte 1, and C\+\+ aligns it to 4",
        ),
        (
            lambda: ck.struct("S", np.dtype({"names": "ab", "formats": ["f8", "f4"], "offsets": [0, 4]})),
            ValueError,
            "S: field b begins at byte 4, and the field before it ends at 8",
        ),
        (
            lambda: ck.struct("S", np.dtype([("x", "f4"), ("a", "i1")])),
            ValueError,
            "5 bytes are no multiple of 4",
        ),
        (lambda: Inner(1, 2, 3), TypeError, "Inner: expected at most 2 values, got 3"),
        (lambda: Inner(1, small=2), TypeError, "Inner: field small is given by position and by name"),
        (lambda: Inner(width=2), TypeError, "Inner: no field 'width'; its fields are small, wide"),
        (lambda: Inner(small=1000), ValueError, "Inner: field small: .*1000"),
        (lambda: Inner.asarray(np.zeros(3)), TypeError, "Inner: records: expected dtype .*, got float64"),
        (lambda: Inner.numpy(ck.zeros(16)), TypeError, r"last axis is 16 long, got float32 of shape \(16,\)"),
        (lambda: Inner.field(ck.zeros((2, 16), "uint8"), "none"), ValueError, "Inner: no field 'none'"),
        (lambda: Outer.field(ck.zeros((2, 128), "uint8"), "inner"), TypeError, "field inner is a struct"),
        (lambda: ck.struct(Inner.dtype), TypeError, r'a name comes first, as in struct\("Name", dtype\)'),
        (
            lambda: ck.asarray(np.zeros(2, Inner.dtype)),
            TypeError,
            r"struct\(name, dtype\).asarray takes records",
        ),
    ],
)
def test_what_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_records_for_a_pointer_are_refused_with_what_takes_them() -> None:
    kernel = ck.Kernel(
        f"{Inner.source} __global__ void reset(Inner* p) {{ p->small = 0; }}", block=1, plain=True
    )
    advice = r"cukern.struct\(name, records.dtype\).asarray\(records\) makes an array of their bytes"
    with pytest.raises(ck.LaunchError, match=f"argument p: .*{advice}"):
        kernel(np.zeros(2, Inner.dtype), grid=1)
