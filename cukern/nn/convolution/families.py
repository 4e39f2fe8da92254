"""The families of convolutions, and of the gradients of their weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.deferred import trace, traced_threads
from ...array.layout import Layout, is_aligned, layout
from ...device.precision import get_matmul_precision
from ...elementwise.operands import public
from ...elementwise.program import Program
from ...elementwise.script import CallPlan
from ...kernel.plan import made, one_device
from ...launch import cost
from ...launch.family import Family
from ...linear.epilogue import of_sum
from . import depthwise, depthwise_gradients, reference, splitting
from .gradients import PortableWeights, SimtWeights, TensorCoresWeights, TmaWeights
from .panels import Panels, PanelsWeights
from .pointwise import Pointwise, PointwiseWeights
from .problem import Convolution, Form, WeightsGradient, Windows
from .tensor_cores import TensorCores
from .tma import Bands, Strided
from .variants import FewChannels, FewFilters, Portable, Simt
from .winograd import Winograd, WinogradWeights

#: Of dense convolutions, and gradients of their images.
CONVOLUTION: Family[Convolution] = Family(
    "convolution",
    Portable,
    Simt,
    FewFilters,
    FewChannels,
    TensorCores,
    Bands,
    Strided,
    Pointwise,
    Winograd,
    Panels,
    reference=reference.convolution,
    samples=reference.convolution_samples(depthwise=False),
)
#: Of few channels and filters a group, and gradients of their images.
DEPTHWISE: Family[Convolution] = Family(
    "depthwise convolution",
    depthwise.Direct,
    depthwise.Rows,
    depthwise.Planes,
    reference=reference.convolution,
    samples=reference.convolution_samples(depthwise=True),
)
#: Of gradients of their weights.
DEPTHWISE_WEIGHTS: Family[WeightsGradient] = Family(
    "gradient of depthwise weights",
    depthwise_gradients.Direct,
    depthwise_gradients.Rows,
    depthwise_gradients.Columns,
    depthwise_gradients.Planes,
    depthwise_gradients.Ring,
    reference=reference.weights_gradient,
    samples=reference.gradient_samples(depthwise=True),
)
#: Of the weights of dense convolutions.
WEIGHTS_GRADIENT: Family[WeightsGradient] = Family(
    "weights gradient",
    PointwiseWeights,
    WinogradWeights,
    TmaWeights,
    TensorCoresWeights,
    SimtWeights,
    PortableWeights,
    PanelsWeights,
    reference=reference.weights_gradient,
    samples=reference.gradient_samples(depthwise=False),
)


def _layouts_of(*arrays: Array) -> list[Layout]:
    """The layouts of arrays, of which plans ask on the host too whether their memory is aligned."""
    found = []
    for x in arrays:
        own = x._layout or x._planned()
        if own.on_host and own.aligned and not is_aligned(x):
            own = layout(own.device, own.dtype, own.shape, own.strides, False)
        found.append(own)
    return found


@public
def convolution(
    x: Array,
    weights: Array,
    operands: Sequence[Array],
    form: Form,
    epilogue: Program | None = None,
    numbers: Sequence[Any] = (),
) -> Array:
    """The convolution of an image, or if the form is ``transposed`` the gradient of a convolution's image.

    In a trace one without epilogue waits for what follows it.

    Args:
        x: the image, or the output's gradient.
        weights: the filters.
        operands: of the epilogue, of shape (filters,), (batch, filters), or that of the result, as which it lies then.
        form: what is asked for.
        epilogue: makes an element of the result of one of the convolution, of operands and of numbers.
        numbers: of the epilogue.
    """
    if weights.device is not x.device or (operands and operands[0].device is not x.device):
        one_device("convolution", (x, weights, *operands))
    wide = any(one.ndim > 1 for one in operands)
    reach = tuple([_REACH.get(one.ndim, "elements") for one in operands]) if wide else ()
    problem, family = _convolution(*_layouts_of(x, weights), *form, epilogue, get_matmul_precision(), reach)
    if traced_threads and (active := trace()) is not None:
        waiting = None
        if family is not None and epilogue is None:
            waiting = active.called("convolution", (x, weights), ((), form), problem.layout())
        if waiting is None:
            waiting = active.call(convolution, (x, weights, operands, form, epilogue, numbers), {})
        result: Array = waiting
        return result
    if family is None:

        def of_half(part: Array, own: Form) -> Array:
            return convolution(part, weights, operands, own, epilogue, numbers)

        return splitting.convolution(x, form, weights.shape[2:], of_half)
    plan = family(problem)
    dense = [one.contiguous() if one.ndim in _REACH else one for one in operands]
    return plan(x, weights, *dense, *numbers)


#: The fewest channels of windows of one pixel, which are matrix products, that a whole array is added to: what follows
#: runs beside the products. On an H200 64 channels and a residual take 203 us in one launch, 189 in two.
_LEAST_DEPTH = 512
#: What operands of so many axes have a number for.
_REACH = {1: "channels", 2: "images"}


def _followed(
    arrays: Sequence[Array],
    numbers: Sequence[Any],
    shapes: Sequence[tuple[int, ...]],
    form: Form,
    epilogue: Program,
) -> Array:
    """A convolution of the first two arrays and what follows it.

    Args:
        arrays: the image, the weights and the operands.
        numbers: of the epilogue.
        shapes: to which operands are reshaped, if at all.
        form, epilogue: see :func:`convolution`.
    """
    x, weights, *others = arrays
    for i, (one, shape) in enumerate(zip(others, shapes, strict=True)):
        others[i] = ops.reshape(one, shape) if shape else one
    result: Array = convolution(x, weights, others, form, epilogue, numbers)
    return result


@public
def convolution_plan(
    prog: Program, at: int, arrays: Sequence[Array], given: tuple[Any, ...]
) -> CallPlan | None:
    """What computes both a convolution and what follows it; None if these are separate launches.

    Args:
        prog: has one output.
        at: the number of the convolution among its inputs.
        arrays: the image, the weights, and the other inputs.
        given: what :func:`convolution` takes behind image and weights.
    """
    (x, weights, *others), (_, form) = arrays, given
    if prog.outputs[0].dtype != x.dtype:
        return None
    problem, family = _convolution(*_layouts_of(x, weights), *form, None, get_matmul_precision())
    found = [_operand(one, problem.layout()) for one in _layouts_of(*others)]
    shapes = tuple([one for one in found if one is not None])
    if len(shapes) < len(others) or family is None:
        return None
    if family is DEPTHWISE and problem.device.addressable:
        return None  # choices, as of a clip, keep the host from computing several pixels at a time
    reach = tuple([_REACH.get(len(shape), "elements") for shape in shapes])
    if {*reach} - {"channels"}:
        shallow = problem.channels < _LEAST_DEPTH and not problem.device.addressable
        if shallow and not any(n > 1 for n in problem.kernel):
            return None
        limits, result = problem.device.properties, problem.layout().nbytes
        apart = family.seconds(problem) + cost.moving(result, result, limits) + cost.launch(limits)
        if family.seconds(problem._replace(reach=reach)) > apart:
            return None
    return CallPlan(_followed, (shapes, form, of_sum(prog, at)), problem.results)


def _operand(one: Layout, result: Layout) -> tuple[int, ...] | None:
    """To what shape an operand of a result's epilogue is reshaped, () for none; None if it is not taken."""
    batch, filters, *size = result.shape
    shape = (1,) * (result.ndim - one.ndim) + one.shape
    if one is result:
        return ()
    if shape == (1, filters, *[1] * len(size)):
        return (filters,)
    if shape == (batch, filters, *[1] * len(size)):
        return (batch, filters)
    return None


@lru_cache(maxsize=8192)
def _convolution(*given: Any) -> tuple[Convolution, Family[Convolution] | None]:
    """The problem of fields, and the family of its kernel; None where it has too many pixels for one."""
    problem = Convolution(*given)
    batch, channels, *_ = problem.x.shape
    shape = batch, channels, *problem.size
    images = (shape, problem.x.shape) if problem.transposed else (problem.x.shape, shape)
    if splitting.is_needed(*images, problem.transposed):
        return problem, None
    return problem, CONVOLUTION if depthwise.why_not_few(problem) else DEPTHWISE


def weights_gradient(
    output: Array,
    image: Array,
    windows: Windows,
    kernel: tuple[int, ...],
    channels_last: bool,
    dtype: dtypes.DType | None = None,
) -> Array:
    """The gradient of the weights of a convolution, of that of the output.

    Args:
        output: the output's gradient, shape (batch, filters, ...).
        image: shape (batch, channels, ...).
        windows: how the windows lie.
        kernel: the sizes of a window.
        channels_last: whether the channels of the result lie innermost in memory.
        dtype: of the result, that of the arrays or of their sums; by default the first.
    """
    given = output, image, windows, kernel, channels_last, dtype or output.dtype
    result: Array = made("weights_gradient", _gradient_of_weights, *given)
    return result


def _gradient_of_weights(
    output: Array,
    image: Array,
    windows: Windows,
    kernel: tuple[int, ...],
    channels_last: bool,
    dtype: dtypes.DType,
) -> Array:
    if image.device is not output.device:
        one_device("convolution", (output, image))
    problem, family = _weights_gradient(
        *_layouts_of(output, image),
        *(windows, kernel),
        *(channels_last, dtype, get_matmul_precision()),
    )
    if family is None:

        def of_half(outputs: Array, images: Array, own: Windows) -> Array:
            return weights_gradient(
                outputs, images, own, kernel, channels_last, dtypes.info(output.dtype).acc
            )

        return ops.astype(splitting.weights(output, image, windows, kernel, of_half), dtype)
    plan = family(problem)
    return plan(output, image)


@lru_cache(maxsize=8192)
def _weights_gradient(*given: Any) -> tuple[WeightsGradient, Family[WeightsGradient] | None]:
    """The problem of fields, and the family of its kernel; None where it has too many pixels for one."""
    problem = WeightsGradient(*given)
    if splitting.is_needed(problem.image.shape, problem.output.shape, False):
        return problem, None
    return problem, WEIGHTS_GRADIENT if depthwise.why_not_few(problem) else DEPTHWISE_WEIGHTS
