"""Pages of HTML that the library writes, as a browser lays them out at the widths of a telephone and of a desk."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import cukern as ck
from cukern.testing import Line, Report, traced

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Of a browser that neither asks nor loads anything.
OPTIONS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars --virtual-time-budget=2000""".split()
#: Notes errors from the beginning on.
FIRST = """<script>window.wrong = [];
addEventListener("error", one => wrong.push("error: " + (one.message || one.target.outerHTML)), true);
for (const kind of ["error", "warn"]) console[kind] = (...said) => wrong.push(`console.${kind}: ${said}`);
</script>"""
#: Measures what was laid out, and leaves what is wrong as the page's text.
LAST = r"""<script>addEventListener("load", () => {
const LEAST_FONT = 12, LEAST_CONTRAST = 4.5;
const wide = document.documentElement.clientWidth;
const named = one => `<${one.tagName.toLowerCase()}> ${one.textContent.trim().slice(0, 60)}`;
const texts = [...document.querySelectorAll("body *")].filter(one => !one.closest("script, style, title") &&
    one.getClientRects().length && [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
if (texts.length < 10) wrong.push(`only ${texts.length} texts`);
if (document.documentElement.scrollWidth > wide) wrong.push(`the body is ${document.documentElement.scrollWidth} wide`);
for (const one of document.querySelectorAll("body *")) {
    if (one.closest("svg") && one.tagName !== "svg") continue;
    const at = one.getBoundingClientRect(), style = getComputedStyle(one);
    if (at.right > wide + 1 && !one.closest(".scroll")) wrong.push("beyond the page: " + named(one));
    if (/hidden|clip/.test(style.overflowX) && one.tagName !== "svg" && one.scrollWidth > one.clientWidth + 1)
        wrong.push("cut off: " + named(one));
}
const light = color => {
    const linear = one => one <= 10 ? one / 3294 : ((one / 255 + .055) / 1.055) ** 2.4;
    const [r, g, b] = color.match(/[\d.]+/g).map(linear);
    return .2126 * r + .7152 * g + .0722 * b;
};
const back = one => {
    for (; one; one = one.parentElement) {
        const color = getComputedStyle(one).backgroundColor;
        if (!/, 0\)$/.test(color)) return color;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)";
};
for (const one of texts) {
    const style = getComputedStyle(one), svg = one.closest("svg");
    const size = parseFloat(style.fontSize) * (svg ? Math.hypot(svg.getScreenCTM().a, svg.getScreenCTM().b) : 1);
    if (size < LEAST_FONT - .1) wrong.push(`${size} pixels: ` + named(one));
    const both = [light(svg ? style.fill : style.color), light(back(one))].sort((a, b) => b - a);
    if ((both[0] + .05) / (both[1] + .05) < LEAST_CONTRAST) wrong.push("too little contrast: " + named(one));
}
for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect(), inside = texts.filter(one => one.ownerSVGElement === svg);
    const at = inside.map(one => one.getBoundingClientRect());
    at.forEach((a, i) => {
        if (a.left < box.left || a.right > box.right || a.top < box.top || a.bottom > box.bottom)
            wrong.push("beyond its picture: " + named(inside[i]));
        for (let j = 0; j < i; ++j)
            if (a.left < at[j].right && at[j].left < a.right && a.top + 2 < at[j].bottom && at[j].top + 2 < a.bottom)
                wrong.push(`on each other: ${named(inside[i])}, ${named(inside[j])}`);
    });
}
parent.postMessage(JSON.stringify([innerWidth, matchMedia("(prefers-color-scheme: dark)").matches, wrong]), "*");
})</script>"""
#: Has the page in a frame, as a browser's own windows are not as narrow as a telephone.
OUTER = """<!doctype html><script>
addEventListener("message", said => document.body.append("LINT" + said.data + "END"));
</script><iframe width="{width}" height="900" style="border: 0" src="{page}"></iframe>"""


def wrong_with(page: str, width: int, dark: bool, folder: Path) -> list[str]:
    """What is wrong with a page in a browser of a width in pixels."""
    assert page.count("<meta charset") == 1
    inner, outer = folder / "inner.html", folder / "outer.html"
    inner.write_text(
        page.replace("<meta charset", FIRST + "<meta charset").replace("</html>", LAST + "</html>")
    )
    outer.write_text(OUTER.format(width=width, page=inner.as_uri()))
    command = [str(BROWSER), *OPTIONS, f"--user-data-dir={tempfile.mkdtemp(dir=folder)}"]
    command += ["--blink-settings=preferredColorScheme=0"] * dark
    done = subprocess.run(
        [*command, "--dump-dom", outer.as_uri()], capture_output=True, text=True, timeout=60
    )
    found = re.search(r"LINT(\[.*\])END", done.stdout, re.DOTALL)
    assert found is not None, f"the page's script did not run:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    seen, is_dark, wrong = json.loads(html.unescape(found[1]))
    assert (seen, is_dark) == (width, dark)
    return [str(one) for one in wrong]


def trace_page(folder: Path) -> str:
    kernel = ck.Kernel(
        """
    <% include "prelude/copy_async.cuh" %>
    extern "C" __global__ void << name >>(const float4* x, float4* y, float* sums, int n) {
        __shared__ float4 tile[2][128];
        const int t = threadIdx.x;
        for (int k = 0; k < n; ++k) {
            copy_async(&tile[k % 2][t], &x[k * 128 + t]);
            commit_copies();
            wait_copies<0>();
            __syncthreads();
            float4 v = tile[k % 2][t ^ 1];
            v = make_float4(2 * v.x + 1, tile[k % 2][t].y * tile[k % 2][t].z, 0.0f, expf(tile[k % 2][t].w));
            if (t >= 32) y[k * 128 + t] = v;
            else atomicAdd(&sums[t % 7], tile[k % 2][4 * t].x);
        }
    }""",
        name="a_kernel_whose_name_is_longer_than_a_narrow_page_is_wide",
        block=128,
    )
    with ck.device("host"), traced() as traces:
        kernel(ck.ones(4 * 128 * 12), ck.zeros(4 * 128 * 12), ck.zeros(7), 12, grid=2)
    traces[0].save(folder / "trace.html")
    return (folder / "trace.html").read_text()


def report_page(folder: Path) -> str:
    where = "/a/folder/that/is/deep/in/a/tree/of/folders/with_long_names/kernels/scaled_dot_product.cu:128"
    found = f"args[1], element (3, 5): 0.25, expected 0.5\n{where}\n{'    y[i] = x[i] * scale;  ' * 6}"
    lines = [
        Line(
            "results", "beside the reference, in float64", "passed", "within 2.5 roundings", "larger shapes"
        ),
        Line("gradient of args[1]", "finite differences", "failed", found, "", "gradient", where),
        Line("races", "no checked launch", "not checked", left_out="a_word_without_a_blank" * 6),
    ]
    report = Report(
        "scaled_dot_product_of_attention_forward_float32_float16_64", lines, {"seed": 0, "device": "host"}
    )
    report.save(folder / "report.html")
    return (folder / "report.html").read_text()


@pytest.mark.thorough
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed, in which pages are laid out")
@pytest.mark.parametrize("make", [trace_page, report_page])
def test_pages_fit_narrow_and_wide_windows(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    page = make(tmp_path)
    for width in 400, 1280:
        for dark in False, True:
            assert wrong_with(page, width, dark, tmp_path) == [], (width, dark)


@pytest.mark.thorough
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed, in which pages are laid out")
def test_what_does_not_fit_is_found(tmp_path: Path) -> None:
    page = report_page(tmp_path).replace(
        "<h1>", "<p style='width: 700px; font-size: 8px; color: #888'>small</p><script>nothing()</script><h1>"
    )
    wrong = "\n".join(wrong_with(page, 400, False, tmp_path))
    for one in (
        "the body is",
        "beyond the page: <p> small",
        "8 pixels",
        "too little contrast",
        "nothing is not defined",
    ):
        assert one in wrong
