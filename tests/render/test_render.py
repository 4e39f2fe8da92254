"""Templates become text: values, statements, #line, and what each mistake says."""

import re

import pytest

from cukern import errors
from cukern.text import render


def rendered(source, **variables):
    return render.render(render.add_source(source, "sample"), variables).text


def body(text):
    return text[text.index('#line 1 "<sample') :]


def test_values_statements_and_comments():
    text = rendered(
        "int a = << n >>;\n<# not here #>\n<% for i in range(n) %>\nf(<< i >>);\n<% endfor %>\n", n=2
    )
    lines = [line for line in body(text).splitlines() if line and not line.startswith("#line")]
    assert lines == ["int a = 2;", "f(0);", "f(1);"]


SOURCE = """first
<% for i in range(2) %>
    loop << i >>
<% endfor %>
<# a comment
   of two lines #>
after
<% if on %>
    inline <% if on %>yes<% endif %>

<% else %>
    no
<% endif %>
<% set table = [
    1,
] %>
#ifdef NEVER
<% if on %>
skipped
<% endif %>
#endif
last
"""


def test_line_directives_give_the_templates_own_lines():
    wanted = {line.strip(): number for number, line in enumerate(SOURCE.splitlines(), 1)}
    number = 0
    seen = []
    for line in body(rendered(SOURCE, on=True)).splitlines():
        if line.startswith("#line"):
            number = int(line.split()[1])
            continue
        word = line.strip().split(" ")[0]
        for source, at in wanted.items():
            if word and source.startswith(word) and not source.startswith("<"):
                assert number == at, line
                seen.append(word)
        number += 1
    assert seen == ["first", "loop", "loop", "after", "inline", "#ifdef", "skipped", "#endif", "last"]


def test_macros_stay_on_their_line():
    text = rendered("<% macro twice(x) %>\n(<< x >> + << x >>)\n<%- endmacro %>\nint a = << twice(3) >>;\n")
    assert re.search(r'\n#line 4 "<sample[^"]*>"\nint a = \(3 \+ 3\);\n\Z', text)


def test_every_text_starts_with_the_prelude_and_halves_only_where_used():
    assert "struct View" in rendered("int a;\n")
    assert "#include <cuda_fp16.h>" not in rendered("int a;\n")
    assert "#include <cuda_fp16.h>" in rendered("<< elem >> a;\n", elem="__half")
    assert "#include <cuda_bf16.h>" in rendered("<< elem >> a;\n", elem="__nv_bfloat16")


def test_undefined_variable_names_line_and_bound_variables():
    with pytest.raises(errors.TemplateError) as caught:
        rendered("a\nb << missing >>\nc\n", elem="float")
    message = str(caught.value)
    assert "line 2" in message and "'missing' is undefined" in message
    assert "> " in message and "b << missing >>" in message and "elem='float'" in message


@pytest.mark.parametrize(
    "source, line",
    [
        ("x\nint a = 1 << 3;\nint b;\n", 2),
        ("x\n\nauto y = (a << elem);\n", 3),
        ("one line << elem", 1),
        ("x\n1 << 3;\n}\n", 3),
    ],
)
def test_unclosed_expression_names_line_and_the_way_to_shift(source, line):
    with pytest.raises(errors.TemplateError) as caught:
        rendered(source, elem="float")
    assert f"line {line}" in str(caught.value)
    assert all(one in str(caught.value) for one in ("shl(x, n)", "View< << elem >> >", "plain=True"))


def test_undefined_variable_in_an_included_template_names_that_template(tmp_path):
    (tmp_path / "inner.cuh").write_text("ok\n<< nothing >>\n")
    render.add_templates(tmp_path)
    with pytest.raises(errors.TemplateError, match=r"inner.cuh, line 2: 'nothing' is undefined"):
        rendered('outer\n<% include "inner.cuh" %>\n')


def test_missing_template_lists_the_folders():
    with pytest.raises(errors.TemplateError, match=r"no template named 'nope.cu' in .*templates"):
        render.render("nope.cu", {})


def test_a_users_folder_comes_first_and_must_exist(tmp_path):
    (tmp_path / "mine.cu").write_text("from << where >>\n")
    render.add_templates(tmp_path)
    assert "from here" in render.render("mine.cu", {"where": "here"}).text
    with pytest.raises(NotADirectoryError, match="folder: expected an existing folder"):
        render.add_templates(tmp_path / "absent")


def test_templates_outside_the_folders_are_not_reached(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.cu").write_text("secret\n")
    render.add_templates(inner)
    with pytest.raises(errors.TemplateError, match="no template named"):
        render.render("../secret.cu", {})


@pytest.mark.parametrize(
    "log, line",
    [
        ("<here>(3): error: identifier is undefined\n", 3),
        ("<here>: In function 'void k()':\n<here>:7:12: error: 'x' was not declared\n", 7),
        ("/usr/include/thing.h:4:1: error: no\n", None),
        ("", None),
    ],
)
def test_locate_reads_both_compilers_messages(log, line):
    render._sources.strings["<here>"] = "text"
    assert render.locate(log) == (None if line is None else ("<here>", line))


@pytest.mark.parametrize(
    "source, message",
    [
        ("a\n<< 1 // 0 >>\n", "line 2: ZeroDivisionError"),
        ("a\n\n<< n // 'x' >>\n", "line 3: TypeError"),
        ("a\n<% include 'absent.cuh' %>\n", "line 2: no template named 'absent.cuh'"),
    ],
)
def test_a_failing_expression_names_its_line(source, message):
    with pytest.raises(errors.TemplateError, match=message) as caught:
        rendered(source, n=3)
    assert "bound variables: n=3" in str(caught.value)


def test_a_template_that_is_not_utf8(tmp_path):
    (tmp_path / "latin.cu").write_bytes("// caf\xe9\n".encode("latin-1"))
    render.add_templates(tmp_path)
    with pytest.raises(errors.TemplateError, match=r"latin.cu: expected UTF-8 text"):
        render.render("latin.cu", {})


def test_a_log_without_a_location():
    assert render.locate("error: cannot open output file\n: error: no\n") is None


@pytest.mark.parametrize("word", ["half", "__half2", "nv_bfloat16", "__nv_bfloat162"])
def test_every_name_of_the_half_types_brings_its_header(word):
    header = "cuda_fp16.h" if "half" in word else "cuda_bf16.h"
    assert f"#include <{header}>" in rendered(f"const {word}* x;\n")
    assert f"#include <{header}>" not in rendered("float halfway, nv_bfloat;\n")


def test_only_code_that_names_a_half_type_brings_its_header():
    """Which is a fifth of the time that a compiler takes for a short kernel."""
    preludes = (f'<% include "prelude/{name}.cuh" %>\n' for name in ("math", "reduce"))
    text = rendered("".join(preludes) + 'auto a = "half"; // a half, a __half2\n/* half\n nv_bfloat16 */\n')
    assert "cuda_fp16" not in text and "cuda_bf16" not in text
