"""An exported operator in CUDA C++: functions with C linkage, and a test of stored values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .formulas import Formula
from .program import Buffer, Number, Operator, Place, Program, Words, names, programs, sizes_used

#: What kernels begin with for nvcc: its headers declare a function ``index``, and it reads a text for the host too,
#: which is not to take the host's part.
_HEAD = """#include <cuda_runtime.h>
#define index index_type
#ifdef __CUDA_ARCH__
#define TARGET_ARCH __CUDA_ARCH__
#else
#define TARGET_ARCH 800
#endif
"""


def whole(text: str, kernel: str) -> str:
    """A kernel's file, with a function that launches it."""
    return f"""{_HEAD}{text.replace("__CUDA_ARCH__", "TARGET_ARCH")}

extern "C" int {kernel}_launch(
    const unsigned* grid, const unsigned* block, size_t shared, void** values, cudaStream_t stream) {{
    if (shared > 48 << 10)
        cudaFuncSetAttribute((const void*){kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    return cudaLaunchKernel((const void*){kernel}, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]),
                            values, shared, stream);
}}
"""


def texts(operator: Operator) -> dict[str, str]:
    """The header, the functions, the test, and how they are built."""
    name = operator.name
    kernels = sorted(set(names(operator).values()))
    files = " ".join([f"{name}.cu", *(f"kernels/{one}.cu" for one in kernels)])
    return {
        f"{name}.h": _header(operator),
        f"{name}.cu": _functions(operator, kernels),
        "test.cu": _test(operator),
        "build.sh": "#!/bin/sh\n# Builds the library, and a test of stored values; give -arch=sm_90 or the like.\n"
        'set -e\ncd "$(dirname "$0")"\n'
        f'nvcc -std=c++17 -ftz=true -Xcompiler -fPIC -shared "$@" {files} -o lib{name}.so\n'
        f'nvcc -std=c++17 -ftz=true "$@" test.cu {files} -o test_{name}\n',
    }


def _parameters(program: Program, workspace: bool = True) -> str:
    last = program.arguments + program.results
    arrays = [
        f"{'const ' if i < program.arguments else ''}void* {one.name}"
        for i, one in enumerate(program.buffers[:last])
    ]
    return ", ".join(
        [*arrays, *(["void* workspace"] if workspace else []), *_sizes(program), "cudaStream_t stream"]
    )


def _sizes(program: Program) -> list[str]:
    used = sizes_used(program)
    return [f"long long {one}" for one in program.sizes if one in used]


def _header(operator: Operator) -> str:
    name, lines = operator.name, []
    for direction, program in programs(operator).items():
        last = program.arguments + program.results
        for i, one in enumerate(program.buffers[:last]):
            what = "takes" if i < program.arguments else "gives"
            shape = ", ".join(str(size) for size in one.shape)
            lines.append(f"// {what} {one.name}: {one.dtype.name}, shape ({shape})")
        sizes = ", ".join(_sizes(program)) or "void"
        lines += [
            f"size_t {name}_{direction}_workspace({sizes});  // bytes of memory that it needs meanwhile",
            f"int {name}_{direction}({_parameters(program)});  // returns a cudaError_t",
            "",
        ]
    body = "\n".join(lines)
    return (
        f"// The operator {name}, on arrays in C order in a GPU's memory.\n#pragma once\n"
        f'#include <cuda_runtime_api.h>\n#include <stddef.h>\n\n#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{body}\n'
        "#ifdef __cplusplus\n}\n#endif\n"
    )


def _functions(operator: Operator, kernels: list[str]) -> str:
    lines = [
        f'#include "{operator.name}.h"',
        "#include <string.h>",
        "",
        "#define divided(a, b) (((a) + (b) - 1) / (b))",
        "static size_t rounded(size_t n) { return (n + 255) / 256 * 256; }",
        "",
    ]
    lines += [
        f'extern "C" int {one}_launch(const unsigned*, const unsigned*, size_t, void**, cudaStream_t);'
        for one in kernels
    ]
    named = names(operator)
    for direction, program in programs(operator).items():
        lines += ["", *_direction(operator.name, program, direction, named)]
    return "\n".join([*lines, ""])


def _direction(name: str, program: Program, direction: str, named: dict[tuple[str, int], str]) -> list[str]:
    last = program.arguments + program.results
    further = [(i, one) for i, one in enumerate(program.buffers) if i >= last]
    sizes = ", ".join(_sizes(program))
    total = " + ".join(f"rounded({_nbytes(one)})" for _, one in further) or "0"
    lines = []
    for i, one in further:
        if one.content:
            content = ", ".join(map(str, one.content))
            lines.append(f"static const unsigned char {direction}_content{i}[] = {{{content}}};")
    lines += [f"size_t {name}_{direction}_workspace({sizes}) {{ return {total}; }}", ""]
    lines.append(f"int {name}_{direction}({_parameters(program)}) {{")
    lines.append("    int status = 0;")
    used = {arg.buffer for launch in program.launches for arg in launch.args if isinstance(arg, Place)}
    for i, one in enumerate(program.buffers[:last]):
        if i in used:
            lines.append(f"    char* at{i} = (char*){one.name};")
    before = "(char*)workspace"
    for i, one in further:
        lines.append(f"    char* at{i} = {before};")
        before = f"at{i} + rounded({_nbytes(one)})"
    for i, one in enumerate(program.buffers):
        if one.content:
            lines.append(
                f"    status |= cudaMemcpyAsync(at{i}, {direction}_content{i}, sizeof {direction}_content{i}, "
                "cudaMemcpyHostToDevice, stream);"
            )
        elif one.cleared:
            lines.append(f"    status |= cudaMemsetAsync(at{i}, 0, {_nbytes(one)}, stream);")
    for i, launch in enumerate(program.launches):
        lines.append("    if (!status) {")
        for k, arg in enumerate(launch.args):
            lines.append(f"        {_value(arg, k)}")
        grid = ", ".join(f"(unsigned)({one})" for one in launch.grid)
        values = ", ".join(
            f"{'' if isinstance(arg, Words) else '&'}v{k}" for k, arg in enumerate(launch.args)
        )
        lines += [
            f"        unsigned grid[] = {{{grid}}}, block[] = {{{', '.join(map(str, launch.block))}}};",
            f"        void* values[] = {{{values}}};",
            "        if (grid[0] && grid[1] && grid[2])",
            f"            status = {named[direction, i]}_launch(grid, block, {launch.shared}, values, stream);",
            "    }",
        ]
    return [*lines, "    return status;", "}"]


def _nbytes(buffer: Buffer) -> str:
    return " * ".join([*(f"(size_t)({one})" for one in buffer.shape), str(buffer.dtype.itemsize)])


_TYPES = {
    **{f"i{n}": word for n, word in ((1, "signed char"), (2, "short"), (4, "int"), (8, "long long"))},
    **{f"u{n}": f"unsigned {word}" for n, word in ((1, "char"), (2, "short"), (4, "int"), (8, "long long"))},
    "b1": "bool",
}


def _value(arg: Place | Words | Number | None, k: int) -> str:
    if arg is None:
        return f"void* v{k} = 0;"
    if isinstance(arg, Place):
        return f"void* v{k} = at{arg.buffer}{'' if arg.offset == Formula(0) else f' + {arg.offset}'};"
    if isinstance(arg, Words):
        return f"int v{k}[] = {{{', '.join(f'(int)({one})' for one in arg.words)}}};"
    word = _TYPES.get(f"{arg.dtype.kind}{arg.dtype.itemsize}")
    if word is not None:
        value = str(arg.value) if isinstance(arg.value, Formula) else str(int(arg.value))
        return f"{word} v{k} = ({word})({value});"
    content = ", ".join(map(str, np.asarray(arg.value, arg.dtype).tobytes()))
    return f"alignas(16) unsigned char v{k}[] = {{{content}}};"


def _test(operator: Operator) -> str:
    """A program that fills arrays, calls the functions, and prints the largest error of each result."""
    lines = [
        f'#include "{operator.name}.h"',
        "#include <cuda_bf16.h>",
        "#include <cuda_fp16.h>",
        "#include <math.h>",
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "",
        "static void* filled(const void* bytes, size_t n) {",
        "    void* at = 0;",
        "    cudaMalloc(&at, n ? n : 1);",
        "    if (bytes) cudaMemcpy(at, bytes, n, cudaMemcpyHostToDevice);",
        "    return at;",
        "}",
        "template <typename T>",
        "static int differs(const char* name, void* at, const double* expected, size_t n, double limit) {",
        "    T* got = (T*)malloc(n * sizeof(T));",
        "    cudaMemcpy(got, at, n * sizeof(T), cudaMemcpyDeviceToHost);",
        "    double largest = 0;",
        "    for (size_t i = 0; i < n; ++i) {",
        "        double error = fabs((double)got[i] - expected[i]) / (1 + fabs(expected[i]));",
        "        if (!(error <= largest)) largest = error;",
        "    }",
        '    printf("%s: %g\\n", name, largest);',
        "    return !(largest <= limit);",
        "}",
        "",
    ]
    body = ["int main() {", "    int wrong = 0, status = 0;"]
    kept: dict[str, str] = {}
    for direction, program in programs(operator).items():
        last = program.arguments + program.results
        call = []
        for i, one in enumerate(program.buffers[:last]):
            word = f"{direction}_{one.name}"
            given = operator.examples.get(one.name) if i < program.arguments else None
            if one.name in kept:
                call.append(kept[one.name])
                continue
            if given is not None:
                lines.append(
                    f"static const unsigned char {word}_bytes[] = {{{', '.join(map(str, given.tobytes())) or 0}}};"
                )
                body.append(f"    void* {word} = filled({word}_bytes, {given.nbytes});")
            else:
                right = operator.expected[one.name]
                body.append(f"    void* {word} = filled(0, {right.nbytes});")
            kept[one.name] = word
            call.append(word)
        used = sizes_used(program)
        sizes = [str(_size(operator, program, one)) for one in program.sizes if one in used]
        body.append(
            f"    void* {direction}_workspace = filled(0, {operator.name}_{direction}_workspace({', '.join(sizes)}));"
        )
        body.append(
            f"    status = {operator.name}_{direction}({', '.join([*call, f'{direction}_workspace', *sizes, '0'])});"
        )
        body.append("    if (!status) status = cudaDeviceSynchronize();")
        body.append('    if (status) { printf("%s\\n", cudaGetErrorString((cudaError_t)status)); return 1; }')
        for one in program.buffers[program.arguments : last]:
            right = operator.expected[one.name]
            numbers = ", ".join(_literal(float(x)) for x in np.asarray(right, np.float64).reshape(-1))
            lines.append(f"static const double {one.name}_expected[] = {{{numbers or 0}}};")
            kind, limit = _KINDS.get(right.dtype.name, (right.dtype.name, 0))
            values = f'"{one.name}", {kept[one.name]}, {one.name}_expected, {right.size}, {limit}'
            body.append(f"    wrong |= differs<{kind}>({values});")
    body += ['    puts(wrong ? "wrong" : "right");', "    return wrong;", "}", ""]
    return "\n".join([*lines, "", *body])


_KINDS: dict[str, tuple[str, float]] = {
    "float16": ("__half", 1e-2),
    "bfloat16": ("__nv_bfloat16", 1e-2),
    "float32": ("float", 1e-4),
    "float64": ("double", 1e-8),
    **{
        f"int{n}": (word, 0)
        for n, word in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long long"))
    },
    **{
        f"uint{n}": (f"unsigned {word}", 0)
        for n, word in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    },
    "bool": ("bool", 0),
}


def _literal(value: float) -> str:
    return (
        repr(value)
        if np.isfinite(value)
        else "NAN"
        if value != value
        else "-INFINITY"
        if value < 0
        else "INFINITY"
    )


def _size(operator: Operator, program: Program, name: str) -> Any:
    argument, axis = program.sizes[name]
    return (
        operator.examples[program.buffers[argument].name].shape[axis]
        if program.buffers[argument].name in operator.examples
        else operator.expected[program.buffers[argument].name].shape[axis]
    )
