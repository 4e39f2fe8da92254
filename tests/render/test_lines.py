"""Compilers' messages name the line of the template, however the text came about."""

import pytest

import cukern as ck

HEAD = 'extern "C" __global__ void << name >>(float* y) {\n'
CASES = {
    "plain": (HEAD + "int a;\ny[0] = zork;\n}\n", 3),
    "one line": ('extern "C" __global__ void << name >>(float* y) { y[0] = zork; }', 1),
    "loop": (HEAD + "<% for i in range(3) %>\ny[<< i >>] = zork;\n<% endfor %>\n}\n", 3),
    "after a loop": (HEAD + "<% for i in range(3) %>\ny[<< i >>] = 0;\n<% endfor %>\ny[3] = zork;\n}\n", 5),
    "inline if": (HEAD + "<% if true %>y[0] = 1;<% endif %>\n\nzork();\n}\n", 4),
    "inline if with else": (HEAD + "y[0] = <% if false %>1<% else %>2<% endif %>;\nzork();\n}\n", 3),
    "false branch": (HEAD + "<% if false %>\na\nb\n<% endif %>\nzork();\n}\n", 6),
    "comment over lines": (HEAD + "y[0] = 1; <# one\ntwo\nthree #>\nint joined;\nzork();\n}\n", 6),
    "comment of its own": (HEAD + "<# one\ntwo #>\nzork();\n}\n", 4),
    "raw": (HEAD + "int a = 1;\n<% raw %>\na = a << 2;\n<% endraw %>\nzork();\n}\n", 6),
    "stripping tags": (
        HEAD + "int a;\n  <%- if true -%>\n  a = 1;\n  <%- endif -%>\n\nint joined;\nzork();\n}\n",
        8,
    ),
    "value over lines": (HEAD + "<< 'int a;\\nint b;\\n' >>\nzork();\n}\n", 3),
    "expression over lines": (HEAD + "y[<< 1 +\n1 >>] = 0;\nzork();\n}\n", 4),
    "macro": (
        "<% macro twice(x) %>\n(<< x >> +\n<< x >>)\n<% endmacro %>\n"
        + HEAD
        + "y[0] = << twice(1) >>;\ny[1] = 1;\nzork();\n}\n",
        8,
    ),
    "set block": (HEAD + "<% set two %>\nint a;\nint b;\n<% endset %>\n<< two >>\nzork();\n}\n", 7),
    "filter block": (HEAD + "<% filter lower %>\nINT a;\n<% endfilter %>\nzork();\n}\n", 5),
    "continued macro": (
        "#define BOTH \\\n<% for i in range(2) %>\n  int a<< i >>; \\\n<% endfor %>\n  int last;\n"
        + HEAD
        + "BOTH\nzork();\n}\n",
        8,
    ),
    "skipped group": (HEAD + "#ifdef NEVER\n<% if true %>\nskipped\n<% endif %>\n#endif\nzork();\n}\n", 7),
    "conditional parameter": (
        'extern "C" __global__ void << name >>(\n<% if true %>\n    float* x,\n'
        "<% endif %>\n    float* y) {\nzork();\n}\n",
        6,
    ),
}


def error_of(kernel, device=None):
    with pytest.raises(ck.CompileError) as caught:
        kernel.ptx() if device is None else kernel.bind(device)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("device", [None, "host"], ids=["nvrtc", "host"])
def test_line_of_an_error(case, device):
    source, line = CASES[case]
    message = error_of(ck.Kernel(source, name=f"case_{case.replace(' ', '_')}"), device)
    assert f", line {line}:" in message, message
    assert any(text.startswith(f"> {line:4d} | ") and "zork" in text for text in message.splitlines())


@pytest.mark.parametrize("device", [None, "host"], ids=["nvrtc", "host"])
def test_errors_in_included_and_extended_templates(tmp_path, device):
    (tmp_path / "part.cuh").write_text("int a;\nint b; zork();")
    (tmp_path / "one.cuh").write_text("zork();")
    (tmp_path / "layout.cu").write_text(HEAD + "int first;\n<% block body %>\n<% endblock %>\nint last;\n}\n")
    (tmp_path / "child.cu").write_text(
        '<% extends "layout.cu" %>\n<% block body %>\nint a;\nzork();\n<% endblock %>\n'
    )
    (tmp_path / "error_name.cu").write_text(HEAD + "zork();\n}\n")
    ck.add_templates(tmp_path)
    including = HEAD + '<% include "{}" %>\nint after;\n}}\n'
    assert "part.cuh, line 2:" in error_of(
        ck.Kernel(including.replace("{}", "part.cuh").replace("}}", "}")), device
    )
    assert "one.cuh, line 1:" in error_of(
        ck.Kernel(including.replace("{}", "one.cuh").replace("}}", "}")), device
    )
    assert "child.cu, line 4:" in error_of(ck.Kernel("child.cu"), device)
    assert "error_name.cu, line 2:" in error_of(ck.Kernel("error_name.cu"), device)


def test_an_include_without_a_last_line_break_is_followed_by_the_right_line(tmp_path):
    (tmp_path / "open.cuh").write_text("int a;")
    ck.add_templates(tmp_path)
    assert ", line 4:" in error_of(ck.Kernel(HEAD + '<% include "open.cuh" %>\n\nzork();\n}\n'))
