"""What verdicts say: the codes of rejections, and the lines of what is checked."""

from __future__ import annotations

#: Why a candidate is rejected: the codes of verdicts, and what each says.
REASONS = {
    "forbidden": "the text has what no kernel needs: assembly, code or headers of the host, clocks, hidden words",
    "launch": "the lines that declare launches are missing, or say what cannot be launched",
    "signature": "the kernel is missing, or takes other parameters than the task says",
    "compile": "the text does not compile",
    "bounds": "it reads or writes outside an array, shared memory or a local array",
    "race": "two threads touch one element, one of them writes, and nothing orders them",
    "unset": "it reads memory that nothing has written",
    "unwritten": "it leaves elements of an output as they were",
    "input written": "it writes to an array that it may only read",
    "misaligned": "it reads a vector at an address that its type does not allow",
    "arithmetic": "an integer overflows, or is divided by zero or shifted too far",
    "divergence": "threads of a block or warp wait at different places, or a shuffle reads a lane that is missing",
    "geometry": "threads or blocks along an axis do the same work",
    "fault": "an assert fails, or the launch is at fault otherwise",
    "memory": "it needs more memory than the limit",
    "timeout": "it does not end",
    "crash": "its process has ended",
    "wrong": "results are wrong for announced sizes",
    "precision": "results are near, and farther off than rounding explains",
    "special value": "results are wrong for zeros, equal, small, huge, denormal or infinite numbers, or NaN",
    "shape": "results are wrong for sizes that were not announced, and right for those that were",
    "layout": "results are wrong if arrays begin elsewhere",
    "cached": "a second launch with other inputs gives the results of the first one",
    "state": "a second launch gives other results than a first one with these inputs would",
    "nondeterministic": "two launches with the same inputs give other bits, which the task does not allow",
    "gradient": "the backward is not the derivative of the forward",
    "device": "results on the GPU are wrong, and right on the host",
}
#: The codes of what checked launches report.
OF_REPORTS = {
    "out of bounds": "bounds",
    "use after free": "bounds",
    "free": "bounds",
    "leak": "memory",
    "race": "race",
    "unset": "unset",
    "unwritten": "unwritten",
    "const": "input written",
    "misaligned": "misaligned",
    "overflow": "arithmetic",
    "shift": "arithmetic",
    "division": "arithmetic",
    "divergence": "divergence",
    "lane": "divergence",
    "geometry": "geometry",
    "timeout": "timeout",
}
#: The lines of a verdict: what is checked, how, and what that does not show.
LINES = {
    "text": (
        "text",
        "words and directives, against what reaches outside a kernel",
        "code that breaks out by undefined behaviour",
    ),
    "build": ("kernel", "its name and parameters, compiled for {device}", ""),
    "memory": (
        "accesses",
        "every access of a checked launch: bounds, races, unset memory, barriers; guards around arrays otherwise",
        "orders of blocks that run at once",
    ),
    "values": (
        "results",
        "announced sizes, beside the reference in float64, bounds from its formula",
        "other sizes than drawn",
    ),
    "shapes": (
        "hidden sizes",
        "sizes drawn around, between and beyond those announced, and each one alone far longer",
        "longer ones",
    ),
    "special": ("special values", "{values}", "other values"),
    "large": (
        "large sizes",
        "some blocks of launches on arrays that no memory holds: indices",
        "results; unsigned integers that overflow",
    ),
    "layouts": ("layouts", "arrays that begin one element later", ""),
    "written": ("written outputs", "outputs hold poison before a launch, other poison in the next", ""),
    "repeated": (
        "further launches",
        "other inputs at the same addresses, then the first ones again",
        "more than three launches",
    ),
    "inputs": ("inputs", "compared with what they were after each launch", ""),
    "bits": (
        "determinism",
        "bits of two launches with the same inputs",
        "other orders of blocks than the host's",
    ),
    "backward": (
        "backward",
        "kernelcheck: finite differences and dual numbers, at announced and hidden sizes",
        "the second order",
    ),
    "gpu": (
        "GPU",
        "the same inputs on a GPU, timed by turns with the reference, with the L2 overwritten",
        "",
    ),
}


def reason_of(kind: str, message: str) -> str:
    """The code of what a launch reports."""
    beyond = kind == "fault" and "access of memory" in message  # at an address of no array
    return "bounds" if beyond else OF_REPORTS.get(kind, "fault")
