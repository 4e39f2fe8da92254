"""The instructions of inline PTX that the host knows, each with the C++ that does what NVIDIA's PTX ISA says of it.

A row is a pattern of the whole opcode, such as ``mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32``, and a text of
C++. A text without a semicolon at its end is the value of the first operand, in the type ``t``, or in its own after
``=``. In a pattern ``<i>`` stands for the types that :data:`TYPES` lists under that letter, and binds ``t``; another
group ``(?P<name>...)`` binds its name. In a text

* ``$0``, ``$1``, ... are operands: registers and numbers, of ``{a, b}`` all of them, of ``[address]`` the address;
* ``$a``, ``$b``, ``$c`` are the second, third and fourth operand as values of the type ``t``, and ``$A``, ``$B``,
  ``$C`` of the unsigned type of its width, which wraps around;
* ``${1:f32}`` is operand 1 as a value of a type, or of the type that a group has bound: bits, unless both are integers
  or both floats, as a register of 32 bits may hold either;
* ``$q`` is the register after ``|`` in the first operand;
* ``$t`` and ``$u`` are the C++ types of ``t`` and of its unsigned partner; ``${name}`` is what a group has matched,
  ``${name:map}`` what :data:`MAPS` makes of it, and ``${,3}`` a comma and operand 3, if there is one;
* ``$at``, ``$to``, ``$from`` are pointers to the memory at the only address, the first and the second one, as the
  opcode's state spaces have them: shared memory is found by the low 32 bits of an address.

``needs`` names headers of the runtime, or files of ``templates/prelude``, whose functions the text calls. To add an
instruction, add a row, and a line to the tests in ``tests/device/test_inline_ptx.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The C++ of PTX's types.
CXX = {
    **dict.fromkeys(("b8", "u8"), "unsigned char"),
    "s8": "signed char",
    **dict.fromkeys(("b16", "u16"), "unsigned short"),
    "s16": "short",
    **dict.fromkeys(("b32", "u32"), "unsigned"),
    "s32": "int",
    **dict.fromkeys(("b64", "u64"), "unsigned long long"),
    "s64": "long long",
    "f32": "float",
    "f64": "double",
    "pred": "bool",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162",
    "s16x2": "cukern::Pair<short>",
    "u16x2": "cukern::Pair<unsigned short>",
}
#: What a letter in the brackets of a pattern stands for.
TYPES = {
    "i": "[us](?:8|16|32|64)",
    "b": "b(?:16|32|64)|pred",
    "w": "[bus](?:8|16|32|64)",
    "f": "f32|f64",
    "t": "f32|f64|b?f16(?:x2)?",
    "m": "[bus](?:8|16|32|64)|f32|f64",
}
#: Words of PTX and what C++ has for them.
MAPS = {
    "fn": {
        "rz": "rz",
        "rm": "rd",
        "rp": "ru",
        "rn": "rn",
        "rni": "rn",
        "rzi": "rz",
        "rmi": "rd",
        "rpi": "ru",
    },
    "number": {"s32": "int", "u32": "uint", "s64": "ll", "u64": "ull", "f32": "float", "f64": "double"},
    "mul24": {"s32": "mul24", "u32": "umul24"},
    "mode": {"rz": "cudaRoundZero", "rp": "cudaRoundPosInf"},
    "whole": {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"},
    "wider": {"u16": "unsigned", "s16": "int", "u32": "unsigned long long", "s32": "long long"},
    "long": {"u32": "unsigned long long", "s32": "long long", "u64": "unsigned __int128", "s64": "__int128"}
    | {"u16": "unsigned", "s16": "int"},
    "atomic": {
        "add": "Add",
        "min": "Min",
        "max": "Max",
        "and": "And",
        "or": "Or",
        "xor": "Xor",
        "exch": "Exch",
    }
    | {"inc": "Inc", "dec": "Dec"},
    "shuffle": {
        "idx": "warp_shuffle",
        "up": "warp_shuffle_up",
        "down": "warp_shuffle_down",
        "bfly": "warp_shuffle_xor",
    },
    "round": {"rn": "0", "rz": "1", "rna": "2"},
    "half": {"lo": "0", "hi": "16"},
    "gives": {"dec": "true", "inc": "false"},
    "blocks": {"try_wait": "true", "test_wait": "false"},
    "unsigned_wider": {"u16": "unsigned", "s16": "unsigned"}
    | dict.fromkeys(("u32", "s32"), "unsigned long long"),
    "before": dict.fromkeys((".release", ".acq_rel"), "__threadfence();"),
    "after": dict.fromkeys((".acquire", ".acq_rel"), "__threadfence();"),
    "upper": {"e4m3": "E4M3", "e5m2": "E5M2"},
}
HALF = ("cuda_fp16.h", "cuda_bf16.h")
WARP = ("cukern_ptx_warp.h",)
MMA = ("cukern_ptx_mma.h",)
FP8 = ("cukern_ptx_fp8.h",)
COPY = ("prelude/copy_async.cuh", "prelude/mbarrier.cuh", "cukern_ptx_async.h")
BULK = ("prelude/copy_async.cuh", "prelude/bulk_copy.cuh", "cukern_ptx_async.h")
TILES = ("prelude/copy_async.cuh", "prelude/tensor_map.cuh", "cukern_ptx_async.h", "cukern_ptx_tiles.h")
LIBRARY = (*TILES, "cukern_device.h")
ROLES = ("prelude/warp_roles.cuh", "cukern_ptx_roles.h")
CLUSTER = (
    "prelude/cluster.cuh",
    "prelude/mbarrier.cuh",
    "prelude/cluster_mbarrier.cuh",
    "cukern_ptx_cluster.h",
)
WGMMA = ("prelude/wgmma.cuh", "cukern_ptx_wgmma.h")


@dataclass(frozen=True)
class Row:
    """An instruction: the pattern of its opcode, its C++, the headers for it, and whether threads wait at it."""

    pattern: re.Pattern[str]
    code: str
    needs: tuple[str, ...] = ()
    waits: bool = False


def _row(pattern: str, code: str, needs: tuple[str, ...] = (), waits: bool = False) -> Row:
    pattern = pattern.replace(".", r"\.").replace(r"\.*", ".*")
    pattern = re.sub(r"(?<!\?P)<(\w)>", lambda match: f"(?P<t>{TYPES[match[1]]})", pattern)
    return Row(re.compile(pattern), code, needs, waits)


def _rows(needs: tuple[str, ...], *rows: tuple[str, str]) -> list[Row]:
    """Rows of instructions at which threads wait, all of the same headers: the pattern and the text of each."""
    return [_row(pattern, code, needs, True) for pattern, code in rows]


#: How caches keep memory, its state spaces, and who sees it.
_CACHE = r"(?:.(?:nc|ca|cg|cs|lu|cv|wb|wt|L[12]::\w+))*"
_SPACE = r"(?:.(?:global|shared|shared::cta|shared::cluster))?"
_SCOPE = r"(?:.(?:cta|cluster|gpu|sys))?"
_FTZ = r"(?:.ftz)?"
_NEAR = rf"(?:.rn)?{_FTZ}"
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
#: Of floats all but those with a u, and ``nan``, are false of NaN.
_COMPARISONS = {
    **{name: f"($a {op} $b)" for name, op in {**_COMPARED, **_UNSIGNED}.items()},
    "ne": "($a < $b || $a > $b)",
    **{f"{name}u": f"($a != $a || $b != $b || $a {op} $b)" for name, op in _COMPARED.items()},
    "nan": "($a != $a || $b != $b)",
    "num": "($a == $a && $b == $b)",
}

_ARITHMETIC = [
    *(
        _row(rf"{name}(?:.full|.approx)?{_NEAR}.<t>", f"$a {op} $b")
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
    ),
    *(
        _row(rf"{name}{_NEAR}.sat.f32", f"__saturatef(${{1:f32}} {op} ${{2:f32}})")
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"))
    ),
    _row(
        rf"(?P<op>add|sub|mul).(?P<r>r[zmp]){_FTZ}.f32",
        "__f${op}_${r:fn}(${1:f32}, ${2:f32})",
    ),
    _row(r"(?P<op>add|sub|mul).(?P<r>r[zmp]).f64", "__d${op}_${r:fn}(${1:f64}, ${2:f64})"),
    _row("add.<i>", "$A + $B"),
    _row("sub.<i>", "$A - $B"),
    _row("mul.lo.<i>", "$A * $B"),
    _row("mul24.lo.(?P<t>[su]32)", "__${t:mul24}($a, $b)"),
    _row("mad.lo.<i>", "$A * $B + $C"),
    _row("mad24.lo.(?P<t>[su]32)", "(unsigned)__${t:mul24}($a, $b) + $C"),
    _row("mul.hi.<i>", "($t)((${t:long})$a * $b >> 8 * sizeof($t))"),
    _row("mad.hi.<i>", "($u)((${t:long})$a * $b >> 8 * sizeof($t)) + $C"),
    _row("mul.wide.<i>", "=(${t:wider})$a * (${t:wider})$b"),
    _row("mad.wide.<i>", "=(${t:unsigned_wider})((${t:wider})$a * (${t:wider})$b) + (${t:unsigned_wider})$3"),
    _row("div.<i>", "$a / $b"),
    _row("rem.<i>", "$a % $b"),
    _row(rf"(?:fma|mad){_NEAR}.f32", "fmaf(${1:f32}, ${2:f32}, ${3:f32})"),
    _row("(?:fma|mad)(?:.rn)?.f64", "fma(${1:f64}, ${2:f64}, ${3:f64})"),
    _row(rf"fma{_NEAR}.sat.f32", "__saturatef(fmaf(${1:f32}, ${2:f32}, ${3:f32}))"),
    _row(rf"fma.(?P<r>r[zmp]){_FTZ}.f32", "__fmaf_${r:fn}(${1:f32}, ${2:f32}, ${3:f32})"),
    _row(rf"fma{_NEAR}.(?P<t>b?f16)", "__hfma($a, $b, $c)"),
    _row(rf"fma{_NEAR}.(?P<t>b?f16x2)", "__hfma2($a, $b, $c)"),
    _row(rf"fma{_NEAR}.(?P<s>sat|relu).(?P<t>b?f16)", "__hfma_${s}($a, $b, $c)"),
    _row(rf"fma{_NEAR}.(?P<s>sat|relu).(?P<t>b?f16x2)", "__hfma2_${s}($a, $b, $c)"),
    _row("min.<i>", "$a < $b ? $a : $b"),
    _row("max.<i>", "$a > $b ? $a : $b"),
    _row("(?P<op>min|max).(?P<t>[su]16x2)", "cukern::${op}_of_pairs($a, $b)"),
    _row(rf"(?P<op>min|max){_FTZ}.<f>", "cukern::${op}_of($a, $b)"),
    _row(
        rf"(?P<op>min|max){_FTZ}.NaN.(?P<t>f32)", "$a != $a ? $a : $b != $b ? $b : cukern::${op}_of($a, $b)"
    ),
    _row(rf"(?P<op>min|max){_FTZ}.(?P<t>b?f16)", "__h${op}($a, $b)"),
    _row(rf"(?P<op>min|max){_FTZ}.NaN.(?P<t>b?f16)", "__h${op}_nan($a, $b)"),
    _row(rf"(?P<op>min|max){_FTZ}.(?P<t>b?f16x2)", "__h${op}2($a, $b)"),
    _row(rf"abs{_FTZ}.<f>", "fabs($a)"),
    _row("abs.<i>", "$a < 0 ? -$A : $A"),
    _row(rf"abs{_FTZ}.(?P<t>b?f16)", "__habs($a)"),
    _row(rf"abs{_FTZ}.(?P<t>b?f16x2)", "__habs2($a)"),
    _row(rf"neg{_FTZ}.<t>", "-$a"),
    _row("neg.<i>", "($u)0 - $A"),
    _row("copysign.<f>", "copysign($b, $a)"),
    _row(rf"rcp(?:.approx|.rn){_FTZ}.<f>", "1 / $a"),
    _row(rf"sqrt(?:.approx|.rn){_FTZ}.<f>", "sqrt($a)"),
    _row(rf"rsqrt.approx{_FTZ}.<f>", "rsqrt($a)"),
    _row(rf"ex2.approx{_FTZ}.f32", "exp2(${1:f32})"),
    _row(rf"lg2.approx{_FTZ}.f32", "log2(${1:f32})"),
    _row(rf"(?P<op>sin|cos|tanh).approx{_FTZ}.f32", "${op}(${1:f32})"),
    _row(rf"ex2.approx{_FTZ}.(?P<t>b?f16)", "hexp2($a)"),
    _row(rf"ex2.approx{_FTZ}.(?P<t>b?f16x2)", "h2exp2($a)"),
    _row("tanh.approx.(?P<t>b?f16)", "htanh($a)"),
    _row("tanh.approx.(?P<t>b?f16x2)", "h2tanh($a)"),
    _row("sad.<i>", "($a < $b ? $B - $A : $A - $B) + $C"),
    _row("testp.(?P<op>finite|infinite|notanumber|number|normal|subnormal).<f>", "=cukern::is_${op}($a)"),
]
_BITS = [
    *(_row(f"{name}.<b>", f"$a {op} $b") for name, op in (("and", "&"), ("or", "|"), ("xor", "^"))),
    _row("not.pred", "!$1"),
    _row("not.<b>", "~$a"),
    _row("cnot.<b>", "$a == 0"),
    _row("shl.<b>", "(unsigned)$2 < 8 * sizeof($t) ? $a << $2 : 0"),
    _row("shr.<w>", "(unsigned)$2 < 8 * sizeof($t) ? $a >> $2 : ($t)($a < 0 ? -1 : 0)"),
    _row("popc.b32", "__popc(${1:b32})"),
    _row("popc.b64", "__popcll(${1:b64})"),
    _row("clz.b32", "__clz(${1:b32})"),
    _row("clz.b64", "__clzll(${1:b64})"),
    _row("brev.b32", "__brev(${1:b32})"),
    _row("brev.b64", "__brevll(${1:b64})"),
    _row("bfind.<i>", "=cukern::highest_bit($a)"),
    _row("bfind.shiftamt.<i>", "=cukern::shift_to_highest_bit($a)"),
    _row("fns.b32", "__fns($1, $2, $3)"),
    _row("lop3.b32", "cukern::lop3(${1:b32}, ${2:b32}, ${3:b32}, $4)"),
    _row("prmt.b32", "__byte_perm(${1:b32}, ${2:b32}, ${3:b32})"),
    _row(
        "prmt.b32.(?P<mode>f4e|b4e|rc8|ecl|ecr|rc16)",
        "cukern::permuted_by(cukern::permute_${mode}, ${1:b32}, ${2:b32}, ${3:b32})",
    ),
    _row("shf.(?P<op>[lr]).wrap.b32", "__funnelshift_${op}(${1:b32}, ${2:b32}, ${3:b32})"),
    _row("shf.(?P<op>[lr]).clamp.b32", "__funnelshift_${op}c(${1:b32}, ${2:b32}, ${3:b32})"),
    _row("bfe.<i>", "cukern::bit_field<$t>($a, $2, $3)"),
    _row("bfi.(?P<t>b32|b64)", "cukern::with_bit_field<$t>($a, $b, $3, $4)"),
    _row(
        "bmsk.clamp.b32", "cukern::with_bit_field<unsigned>(~0u, 0, min(${1:u32}, 32u), min(${2:u32}, 32u))"
    ),
    _row("dp4a.(?P<t>[su]32).(?P=t)", "__dp4a($a, $b, $c)"),
    _row(
        "dp2a.(?P<op>lo|hi).(?P<t>[su]32).(?P=t)",
        "cukern::dot_of_two<$t>(${1:b32}, ${2:b32}, ${3:b32}, ${op:half})",
    ),
]
_CHOICES = [
    *(
        _row(rf"setp.{name}{_FTZ}.(?P<t>[bus](?:16|32|64)|f32|f64|b?f16)", f"$q = !($0 = {op});")
        for name, op in _COMPARISONS.items()
    ),
    *(
        _row(
            rf"setp.{name}.{join}{_FTZ}.(?P<t>[bus](?:16|32|64)|f32|f64)",
            f"{{ const bool cukern_t = {op}, cukern_p = $3; "
            f"$0 = cukern_t {how} cukern_p; $q = !cukern_t {how} cukern_p; }}",
        )
        for name, op in _COMPARISONS.items()
        for join, how in (("and", "&"), ("or", "|"), ("xor", "^"))
    ),
    *(
        _row(rf"set.{name}{_FTZ}.[us]32.(?P<t>[bus](?:16|32|64)|f32|f64)", f"={op} ? ~0u : 0u")
        for name, op in _COMPARISONS.items()
    ),
    _row("selp.(?P<t>[bus](?:16|32|64)|f32|f64)", "$3 ? $a : $b"),
    _row("slct.(?P<t>[bus](?:16|32|64)|f32|f64).s32", "${3:s32} >= 0 ? $a : $b"),
    _row(rf"slct{_FTZ}.(?P<t>[bus](?:16|32|64)|f32|f64).f32", "${3:f32} >= 0 ? $a : $b"),
]
_WHOLE = "s8|u8|s16|u16|s32|u32|s64|u64"
_CONVERSIONS = [
    _row(rf"cvt.(?P<t>{_WHOLE}).(?P<s>{_WHOLE}|b32)", "($t)${1:s}"),
    _row(rf"cvt.sat.(?P<t>{_WHOLE}).(?P<s>{_WHOLE})", "cukern::saturated<$t>(${1:s})"),
    _row(
        rf"cvt.(?P<r>r[nzmp]i){_FTZ}(?:.sat)?.(?P<t>[su](?:32|64)).(?P<s>f32|f64)",
        "__${s:number}2${t:number}_${r:fn}(${1:s})",
    ),
    _row(
        rf"cvt.(?P<r>r[nzmp]i){_FTZ}(?:.sat)?.(?P<t>[su](?:8|16)).(?P<s>f32|f64)",
        "cukern::saturated<$t>(__${s:number}2int_${r:fn}(${1:s}))",
    ),
    _row(
        r"cvt.(?P<r>r[nzmp]i).(?P<t>[su](?:32|64)).(?P<s>b?f16)",
        "__float2${t:number}_${r:fn}((float)${1:s})",
    ),
    _row(
        r"cvt.(?P<r>r[nzmp]i).(?P<t>[su](?:8|16)).(?P<s>b?f16)",
        "cukern::saturated<$t>(__float2int_${r:fn}((float)${1:s}))",
    ),
    _row(rf"cvt.(?P<r>r[nzmp]i){_FTZ}.(?P<t>f32|f64).(?P=t)", "${r:whole}($a)"),
    _row(rf"cvt{_NEAR}.(?P<t>f32|f64).(?P<s>{_WHOLE})", "($t)${1:s}"),
    _row(r"cvt.(?P<r>r[zmp]).f32.(?P<s>[su](?:32|64))", "__${s:number}2float_${r:fn}(${1:s})"),
    _row(rf"cvt.sat{_FTZ}.f32.f32", "__saturatef(${1:f32})"),
    _row(rf"cvt{_FTZ}.(?P<t>f32|f64).(?P<s>f32|(?<=f64.)f64)", "${1:s}"),
    _row(rf"cvt.rn{_FTZ}.f32.f64", "(float)${1:f64}"),
    _row(rf"cvt.(?P<r>r[zmp]){_FTZ}.f32.f64", "__double2float_${r:fn}(${1:f64})"),
    _row(rf"cvt{_FTZ}.(?P<t>f32|f64).(?P<s>b?f16)", "($t)(float)${1:s}"),
    _row(rf"cvt.rn{_FTZ}.(?P<t>b?f16).(?P<s>f32|f64)", "$t(${1:s})"),
    _row(rf"cvt.rn.(?P<t>b?f16).(?P<s>{_WHOLE})", "$t(${1:s})"),
    _row(rf"cvt.rz{_FTZ}.(?P<t>b?f16).f32", "cukern::small_directed<$t>(${1:f32}, 0)"),
    _row(rf"cvt.rn{_FTZ}.relu.(?P<t>b?f16).f32", "cukern::relu($t(${1:f32}))"),
    _row(rf"cvt.rn{_FTZ}.(?P<t>b?f16x2).f32", "$t(${2:f32}, ${1:f32})"),
    _row(
        rf"cvt.rz{_FTZ}.(?P<t>b?f16)x2.f32",
        "=cukern::pair_of(cukern::small_directed<$t>(${2:f32}, 0), cukern::small_directed<$t>(${1:f32}, 0))",
    ),
    _row(
        rf"cvt.rn{_FTZ}.relu.(?P<t>b?f16)x2.f32",
        "=cukern::pair_of(cukern::relu($t(${2:f32})), cukern::relu($t(${1:f32})))",
    ),
    _row(
        "cvt.(?P<r>rna|rn|rz)(?P<sat>.satfinite|).tf32.f32",
        "cukern::tf32_bits(${1:f32}, ${r:round}, ${sat:given})",
    ),
    _row(
        "cvt.rn.satfinite(?P<relu>.relu|).(?P<k>e4m3|e5m2)x2.f32",
        "cukern::to_fp8_pair<__NV_${k:upper}>(${1:f32}, ${2:f32}, ${relu:given})",
        FP8,
    ),
    _row(
        "cvt.rn.satfinite(?P<relu>.relu|).(?P<k>e4m3|e5m2)x2.f16x2",
        "cukern::to_fp8_pair<__NV_${k:upper}>(${1:f16x2}, ${relu:given})",
        FP8,
    ),
    _row("cvt.rn.f16x2.(?P<k>e4m3|e5m2)x2", "cukern::from_fp8_pair<__NV_${k:upper}>(${1:b16})", FP8),
    _row(
        "cvt.rn.satfinite(?P<relu>.relu|).e2m1x2.f32",
        "cukern::to_fp4_pair(${1:f32}, ${2:f32}, ${relu:given})",
        FP8,
    ),
    _row("cvt.rn.f16x2.e2m1x2", "cukern::from_fp4_pair(${1:b8})", FP8),
    _row(
        "cvt.(?P<r>r[zp])(?P<sat>.satfinite|).ue8m0x2.f32",
        "__nv_cvt_float2_to_e8m0x2({${2:f32}, ${1:f32}}, (__nv_saturation_t)${sat:given}, ${r:mode})",
        FP8,
    ),
    _row("cvt.rn.bf16x2.ue8m0x2", "__nv_bfloat162(__nv_cvt_e8m0x2_to_bf162raw(${1:b16}))", FP8),
    _row("cvt.pack.sat.(?P<t>[su](?:8|16)).s32(?P<c>|.b32)", "=cukern::packed<$t>($1, $2${,3})"),
    _row("cvta(?:.to)?.(?:global|local|const|param).u(?:32|64)", "$1"),
    _row("cvta.to.shared(?:::cta|::cluster)?.u(?:32|64)", "$1"),
    _row("cvta.shared(?:::cta|::cluster)?.u64", "(unsigned long long)cukern::shared_at($1)"),
    _row("isspacep.shared(?:::cta)?", "cukern::runtime->is_shared((const void*)$1, 1)"),
    _row("isspacep.local", "cukern::runtime->is_local((const void*)$1)"),
    _row("isspacep.const", "__isConstant((const void*)$1)"),
    _row("isspacep.global", "__isGlobal((const void*)$1)"),
]
_MEMORY = [
    _row(
        rf"(?:ld|ldu)(?:.weak)?{_SPACE}{_CACHE}(?:.v[248])?.<m>",
        "cukern::load_from<$t>(cukern::here(), $at, $0);",
    ),
    _row(
        rf"ld.(?:volatile|mmio){_SCOPE}{_SPACE}{_CACHE}(?:.v[24])?.<m>",
        "cukern::load_from<volatile $t>(cukern::here(), $at, $0);",
    ),
    _row(
        rf"ld.relaxed{_SCOPE}{_SPACE}{_CACHE}(?:.v[24])?.<m>",
        "{ const cukern::Relaxed relaxed; cukern::load_from<volatile $t>(cukern::here(), $at, $0); }",
    ),
    _row(
        rf"ld.acquire{_SCOPE}{_SPACE}{_CACHE}(?:.v[24])?.<m>",
        "cukern::load_from<volatile $t>(cukern::here(), $at, $0); __threadfence();",
    ),
    _row(rf"st(?:.weak)?{_SPACE}{_CACHE}(?:.v[248])?.<m>", "cukern::store_to<$t>(cukern::here(), $at, $1);"),
    _row(
        rf"st.(?:volatile|relaxed|mmio){_SCOPE}{_SPACE}{_CACHE}(?:.v[24])?.<m>",
        "cukern::store_to<volatile $t>(cukern::here(), $at, $1);",
    ),
    _row(
        rf"st.release{_SCOPE}{_SPACE}{_CACHE}(?:.v[24])?.<m>",
        "__threadfence(); cukern::store_to<volatile $t>(cukern::here(), $at, $1);",
    ),
    *(
        _row(
            rf"{name}(?P<o>.relaxed|.release|.acquire|.acq_rel|){_SCOPE}{_SPACE}.(?P<op>{ops})"
            rf"(?:.noftz)?(?:.L2::cache_hint)?.(?P<t>{types})",
            f"${{o:before}} {call} ${{o:after}}",
        )
        for ops, types in (
            ("add|min|max|exch|and|or|xor", "[bus](?:32|64)"),
            ("add|exch", "f32"),
            ("add", "f64|b?f16(?:x2)?"),
            ("inc|dec", "u32"),
        )
        for name, call in (
            ("atom", "cukern::out($0, atomic${op:atomic}(($t*)$at, $b));"),
            ("red", "atomic${op:atomic}(($t*)$at, $a);"),
        )
    ),
    _row(
        rf"atom(?P<o>.relaxed|.release|.acquire|.acq_rel|){_SCOPE}{_SPACE}.cas.(?P<t>b16|[bus]32|[bus]64)",
        "${o:before} cukern::out($0, atomicCAS(($t*)$at, $b, $c)); ${o:after}",
    ),
    _row(rf"red(?:.relaxed)?{_SCOPE}{_SPACE}.add(?:.v(?P<n>2|4)).f32", "cukern::add_each((float*)$at, $1);"),
    _row(
        "(?:prefetch|prefetchu|discard|applypriority|pmevent|createpolicy|griddepcontrol|brkpt)(?:.*)?", ";"
    ),
]
_MEETINGS = [
    _row("fence.proxy.async(?:.shared::(?:cta|cluster)|.global)?", "cukern::runtime->fence_to_async();"),
    _row("fence.proxy.(?:alias|tensormap.*)", ";"),
    _row("fence.mbarrier_init.release.cluster", "cukern::runtime->fence_to_async();"),
    _row("(?:membar|fence)(?:.*)?.(?P<s>cta)", "__threadfence_block();"),
    _row("(?:membar|fence)(?:.sc|.acq_rel|.acquire|.release)?.(?:gl|gpu|sys|cluster)", "__threadfence();"),
    _row("bar.sync|barrier(?:.cta)?.sync(?:.aligned)?", "cukern::meet($0${,1});", ROLES, True),
    _row("bar.sync.aligned", "cukern::meet($0${,1});", ROLES, True),
    _row("bar.arrive|barrier(?:.cta)?.arrive(?:.aligned)?", "barrier_arrive($0, $1);", ROLES, True),
    _row("bar.warp.sync", "__syncwarp($0);", waits=True),
    _row("(?:bar|barrier)(?:.cta)?.red.popc(?:.aligned)?.u32", "=cukern::count_at($1, $2${,3})", ROLES, True),
    _row("trap", "__trap();"),
    _row("nanosleep.u32", "__nanosleep($0);", waits=True),
    _row("activemask.b32", "__activemask()", waits=True),
    _row("vote.sync.ballot.b32", "__ballot_sync($2, $1)", waits=True),
    _row("vote.sync.(?P<op>any|all).pred", "__${op}_sync($2, $1)", waits=True),
    _row("vote.sync.uni.pred", "cukern::votes_alike($2, $1)", WARP, True),
    _row("match.any.sync.(?P<t>b32|b64)", "=__match_any_sync($2, $a)", waits=True),
    _row(
        "match.all.sync.(?P<t>b32|b64)",
        "{ int cukern_t; $0 = __match_all_sync($2, $a, &cukern_t); $q = cukern_t; }",
        waits=True,
    ),
    _row(
        "redux.sync.(?P<op>add|min|max|and|or|xor).(?P<t>[bus]32)", "__reduce_${op}_sync($2, $a)", waits=True
    ),
    _row(
        "shfl.sync.(?P<op>idx|up|down|bfly).b32",
        "$q = cukern::shuffled(cukern::${op:shuffle}, $0, ${1:b32}, $2, $3, $4);",
        WARP,
        True,
    ),
    _row("elect.sync", "$q = cukern::elected($0, $1);", WARP, True),
    _row(
        "setmaxnreg.(?P<op>inc|dec).sync.aligned.u32",
        'cukern::set_registers("setmaxnreg.${op}", $0, ${op:gives});',
        ROLES,
        True,
    ),
    _row("barrier.cluster.arrive(?:.release)?(?:.aligned)?", "cluster_arrive();", CLUSTER, True),
    _row("barrier.cluster.arrive.relaxed(?:.aligned)?", "cluster_arrive_relaxed();", CLUSTER, True),
    _row("barrier.cluster.wait(?:.acquire)?(?:.aligned)?", "cluster_wait();", CLUSTER, True),
]
_ELEMENTS = "b?f16|tf32|f32|f64|[su]8|s32|e4m3|e5m2"
_TENSOR = [
    _row(
        r"mma.sync.aligned.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+).row.col(?P<sat>.satfinite|)"
        rf".(?P<d>{_ELEMENTS}).(?P<a>{_ELEMENTS}).(?P<b>{_ELEMENTS}).(?P<c>{_ELEMENTS})",
        "cukern::mma<${m}, ${n}, ${k}, cukern::of::${d}, cukern::of::${a}, cukern::of::${b}, cukern::of::${c}>("
        '"mma.sync", cukern::outs($0), cukern::ins($1), cukern::ins($2), cukern::ins($3), ${sat:given});',
        MMA,
        True,
    ),
    *(
        _row(
            rf"{name}.sync.aligned.(?:m8n8.)?x(?P<n>[124])(?P<trans>.trans|)(?:.m8n8)?(?P<trans2>.trans|).shared(?:::cta)?.b16",
            f"{{ {begin} cukern::move_matrices<${{n}}, {stores}, ${{trans:given}} || ${{trans2:given}}>"
            f'("{name}", cukern_t, $at, __FILE__, __LINE__); {end} }}',
            ("prelude/mma.cuh",),
            True,
        )
        for name, stores, begin, end in (
            ("ldmatrix", "false", "unsigned cukern_t[${n}];", "cukern::give(cukern_t, $0);"),
            ("stmatrix", "true", "unsigned cukern_t[] = {$1};", ""),
        )
    ),
    _row("movmatrix.sync.aligned.m8n8.trans.b16", "cukern::transposed_matrix(${1:b32})", MMA, True),
]
#: Who sees an mbarrier, what a copy is counted by, and how the L2 keeps what it copies.
_OWN_SHARED = "(?:.shared(?:::cta)?)?"
_SEEN_BY = "(?:.cta|.cluster)?(?:.shared(?:::cta|::cluster)?)?"
_COUNTED = "mbarrier::complete_tx::bytes"
_HINT = "(?:.L2::cache_hint)?"
_ASYNC = [
    *_rows(
        COPY,
        (
            r"cp.async.(?P<how>ca|cg).shared(?:::cta)?.global(?:.L2::\w+)*",
            'cukern::copy_async_word($to, $from, $2, cukern::taken($2${,3}), "${how}");',
        ),
        ("cp.async.commit_group", "cukern::runtime->commit(cukern::copy_groups);"),
        ("cp.async.wait_group", "cukern::runtime->finish(cukern::copy_groups, $0, false);"),
        ("cp.async.wait_all", "cukern::wait_for_all_copies();"),
        (
            f"cp.async.mbarrier.arrive(?P<no>.noinc|){_OWN_SHARED}.b64",
            "cukern::copies_arrive_at((MBarrier*)$at, ${no:given});",
        ),
        (f"mbarrier.init{_OWN_SHARED}.b64", "mbarrier_init((MBarrier*)$at, $1);"),
        (f"mbarrier.inval{_OWN_SHARED}.b64", "cukern::mbarrier_end((MBarrier*)$at);"),
        (
            f"mbarrier.arrive(?:.release)?{_SEEN_BY}.b64",
            "cukern::out($0, cukern::arrived((MBarrier*)$at, 0${,2}));",
        ),
        (
            f"mbarrier.arrive_drop(?:.release)?{_SEEN_BY}.b64",
            "cukern::out($0, cukern::dropped((MBarrier*)$at${,2}));",
        ),
        (
            f"mbarrier.arrive.expect_tx(?:.release|.relaxed)?{_SEEN_BY}.b64",
            "cukern::out($0, cukern::arrived((MBarrier*)$at, $2));",
        ),
        (f"mbarrier.expect_tx(?:.relaxed)?{_SEEN_BY}.b64", "cukern::expect_bytes((MBarrier*)$at, $1);"),
        (
            f"mbarrier.(?P<how>try_wait|test_wait)(?P<parity>.parity|)(?:.acquire)?(?:.cta|.cluster)?{_OWN_SHARED}.b64",
            'cukern::is_complete("mbarrier.${how}", (MBarrier*)$at, $2, ${how:blocks})',
        ),
    ),
    *_rows(
        BULK,
        (
            f"cp.async.bulk.shared::(?:cluster|cta).global.{_COUNTED}{_HINT}",
            "copy_bulk($to, $from, $2, (MBarrier*)cukern::shared_at($3));",
        ),
        (
            f"cp.async.bulk.shared::cluster.global.{_COUNTED}.multicast::cluster{_HINT}",
            "copy_bulk_multicast($to, $from, $2, (MBarrier*)cukern::shared_at($3), $4);",
        ),
        (r"cp.async.bulk.global.shared::cta.bulk_group(?:.L2::\w+)*", "store_bulk($to, $from, $2);"),
        (
            r"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32",
            "add_bulk((float*)$to, (const float*)$from, $2);",
        ),
    ),
    *_rows(
        TILES,
        (
            f"cp.async.bulk.tensor.[1-5]d.shared::(?:cluster|cta).global(?:.tile)?.{_COUNTED}{_HINT}",
            "cukern::copy_tile_at(cukern::here(), $to, cukern::shared_at($2), 0, ${1:tile});",
        ),
        (
            f"cp.async.bulk.tensor.[1-5]d.shared::cluster.global(?:.tile)?.{_COUNTED}.multicast::cluster{_HINT}",
            "cukern::copy_tile_at(cukern::here(), $to, cukern::shared_at($2), $3, ${1:tile});",
        ),
        (
            f"cp.async.bulk.tensor.[1-5]d.global.shared::cta(?:.tile)?.bulk_group{_HINT}",
            "cukern::store_tile_at(cukern::here(), cukern::shared_at($1), ${0:tile});",
        ),
    ),
    _row(
        f"cp.async.bulk.prefetch.L2.global{_HINT}|cp.async.bulk.prefetch.tensor.[1-5]d.L2.global(?:.tile)?",
        ";",
    ),
    *_rows(
        BULK,
        ("cp.async.bulk.commit_group", "commit_stores();"),
        (
            "cp.async.bulk.wait_group(?P<read>.read|)",
            "cukern::runtime->finish(cukern::store_groups, $0, ${read:given});",
        ),
    ),
    _row("mapa(?:.shared::cluster)?.u(?:32|64)", "cukern::in_block($1, $2)", CLUSTER, True),
]
_OTHERS = [
    _row(
        r"wgmma.mma_async.sync.aligned.m64n(?P<n>\d+)k(?:8|16|32).f32.(?P<a>f16|bf16|tf32|e4m3).(?P=a)",
        "cukern::wgmma_of<cukern::factor::${a}, ${n}>"
        "(cukern::sums(cukern::here(), $0), ${1:matrix}, $2, $3, $4, $5${,6}${,7});",
        WGMMA,
        True,
    ),
    _row("wgmma.fence.sync.aligned", "wgmma_fence();", WGMMA, True),
    _row("wgmma.commit_group.sync.aligned", "wgmma_commit();", WGMMA, True),
    _row(
        "wgmma.wait_group.sync.aligned",
        "cukern::runtime->finish(cukern::product_groups, $0, false);",
        WGMMA,
        True,
    ),
]
ROWS = [*_ARITHMETIC, *_BITS, *_CHOICES, *_CONVERSIONS, *_MEMORY, *_MEETINGS, *_TENSOR, *_ASYNC, *_OTHERS]
