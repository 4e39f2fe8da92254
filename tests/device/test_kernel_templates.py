"""Kernels' texts: users' templates, their variables, and errors that name the line."""

import copy
import pickle
import re

import numpy as np
import pytest

import cukern as ck

BROKEN = """// a comment
extern "C" __global__ void << name >>(<< elem >>* y) {
    <% for k in range(2) %>
    y[<< k >>] = zork;
    <% endfor %>
}
"""


def test_compile_error_shows_excerpt_line_and_variables(device):
    kernel = ck.Kernel(BROKEN, name="broken", flavour="sour")
    with pytest.raises(ck.CompileError) as caught:
        kernel(ck.zeros(2))
    message = str(caught.value)
    assert re.search(r"<broken.*>, line 4", message)
    assert re.search(r">\s+4 \|\s+y\[<< k >>\] = zork;", message)
    assert "zork" in caught.value.log and "zork" in caught.value.text
    assert "flavour='sour'" in message and "elem='float'" in message


def test_a_brace_that_is_not_closed_is_named(device):
    """The host's compiler finds it in what follows the text, whose lines nobody knows."""
    text = 'extern "C" __global__ void f(float* y) {\n  if (y) {\n    y[0] = 1;\n}\n'
    with pytest.raises(ck.CompileError, match=r"'\{' in line 1 of <kernel.*> is not closed|line \d+:"):
        ck.Kernel(text)(ck.zeros(1))


def test_compile_error_in_a_users_template_names_its_file(device, tmp_path):
    (tmp_path / "mistaken.cu").write_text(BROKEN)
    ck.add_templates(tmp_path)
    with pytest.raises(ck.CompileError, match=r"mistaken.cu, line 4"):
        ck.Kernel("mistaken.cu")(ck.zeros(2))


def test_template_errors_come_from_the_call(device):
    with pytest.raises(ck.TemplateError, match="'absent' is undefined"):
        ck.Kernel('extern "C" __global__ void k(float* y) { y[0] = << absent >>; }')(ck.zeros(1))


def test_a_users_templates_as_string_file_and_folder(device, tmp_path):
    text = 'extern "C" __global__ void << name >>(float* y) { if (threadIdx.x == 0) y[0] = << what >>; }\n'
    (tmp_path / "from_folder.cu").write_text(text)
    ck.add_templates(tmp_path)
    for source in (text, tmp_path / "from_folder.cu", "from_folder.cu"):
        y = ck.zeros(1)
        ck.Kernel(source, what=5)(y)
        assert y.item() == 5
    with pytest.raises(TypeError, match="source: expected a string or a Path, got int"):
        ck.Kernel(5)
    with pytest.raises(ck.TemplateError, match="no template named 'absent.cu'"):
        ck.Kernel("absent.cu")


FILL = """extern "C" __global__ void << name >>(<< elem >>* y) {
    if (threadIdx.x == 0) y[0] = << value >>;
}"""


def filled(kernel, **variables):
    y = ck.zeros(1, dtype=variables.get("elem", ck.float32))
    kernel(y, **variables)
    return y.item()


def test_variables_that_render_differently_are_told_apart(device):
    kernel = ck.Kernel(FILL)
    assert np.signbit(filled(kernel, value=-0.0)) != np.signbit(filled(kernel, value=0.0))
    kernel = ck.Kernel(FILL.replace("<< value >>", "<< 1 if value is string else 2 >>"))
    assert (filled(kernel, value="1"), filled(kernel, value=1)) == (1, 2)
    kernel = ck.Kernel(
        FILL.replace("<< value >>", "<< value | length >> + << 10 if value is sequence else 0 >>")
    )
    assert filled(kernel, value=[1, 2]) == filled(kernel, value=(1, 2)) == 12


def test_variables_are_the_ones_given(device):
    table = {"k": 1}
    kernel = ck.Kernel(FILL.replace("value", "table.k"), table=table)
    assert filled(kernel) == 1
    table["k"] = 2
    assert filled(kernel) == 1 and "y[0] = 1;" in kernel.source(ck.zeros(1))
    with pytest.raises(TypeError, match="value: a template variable is a number, .* got set"):
        filled(ck.Kernel(FILL), value={1})
    with pytest.raises(ck.LaunchError, match="block_x: give block="):
        filled(ck.Kernel(FILL, value=1), block_x=7)


@pytest.mark.parametrize("acc", ["float64", "double", np.float64, ck.float64])
def test_acc_and_elem_are_named_alike(device, acc):
    text = ck.Kernel(FILL, value=0, acc=acc, elem=acc).source()
    assert "double* y" in text
    with pytest.raises(TypeError, match="acc: expected a dtype, got NoneType"):
        ck.Kernel(FILL, value=0, acc=None).source()


@pytest.mark.parametrize("name", ["2d", "a b", "caf\u00e9", "x\u00b2"])
def test_any_name_becomes_a_symbol(device, name):
    assert filled(ck.Kernel(FILL, name=name, value=3)) == 3


def test_kernels_are_copied_and_pickled(device):
    kernel = ck.Kernel(FILL, block=32, name="kept", value=4)
    assert filled(kernel) == 4
    for same in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
        assert (same.block, same.name, filled(same)) == ((32, 1, 1), "kept", 4)


def test_bind_takes_a_devices_name(device):
    assert ck.Kernel(FILL, value=1, elem=ck.float32).bind(str(device)).device is device
