"""The families of convolutions, and of the gradients of their weights."""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import ALIGNMENT, Layout, address, layout
from ...device.precision import get_matmul_precision
from ...elementwise.program import Program
from ...kernel.plan import one_device
from ...launch.family import Family
from . import depthwise, depthwise_gradients, reference, samples, splitting
from .gradients import PortableWeights, SimtWeights, TensorCoresWeights, TmaWeights
from .pointwise import Pointwise, PointwiseWeights
from .problem import Convolution, WeightsGradient, Windows
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
    reference=reference.convolution,
    samples=samples.convolutions(depthwise=False),
)
#: Of few channels and filters a group, and gradients of their images.
DEPTHWISE: Family[Convolution] = Family(
    "depthwise convolution",
    depthwise.Direct,
    depthwise.Rows,
    depthwise.Planes,
    depthwise.Ring,
    reference=reference.convolution,
    samples=samples.convolutions(depthwise=True),
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
    samples=samples.gradients(depthwise=True),
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
    reference=reference.weights_gradient,
    samples=samples.gradients(depthwise=False),
)


def _layout_of(x: Array) -> Layout:
    """The layout of an array, of which plans ask on the host too whether its memory is aligned."""
    own = x._layout or x._planned()
    if not own.on_host or address(x._data) % ALIGNMENT == 0:
        return own
    return layout(own.device, own.dtype, own.shape, own.strides, False)


def convolve(
    x: Array,
    weights: Array,
    operands: Sequence[Array],
    windows: Windows,
    size: tuple[int, ...],
    transposed: bool,
    channels_last: bool,
    epilogue: Program | None = None,
) -> Array:
    """The convolution of an image, or if ``transposed`` the gradient of a convolution's image.

    Args:
        x: the image, or the output's gradient.
        weights: the filters.
        operands: of the epilogue, one number a channel of the result each.
        windows: how the windows lie.
        size: of the result, along its axes of pixels.
        transposed: whether the image's gradient is computed.
        channels_last: whether the channels of the result lie innermost in memory.
        epilogue: makes an element of the result of one of the convolution and of operands.
    """
    one_device("convolution", (x, weights, *operands))
    shape = (x.shape[0], 1, *size)
    if splitting.is_needed(*((shape, x.shape) if transposed else (x.shape, shape)), transposed):

        def of_half(part: Array, own: Windows, its_size: tuple[int, ...]) -> Array:
            return convolve(part, weights, operands, own, its_size, transposed, channels_last, epilogue)

        return splitting.convolution(x, windows, weights.shape[2:], size, transposed, channels_last, of_half)
    layouts = _layout_of(x), _layout_of(weights)
    problem = Convolution(
        *layouts, windows, size, transposed, channels_last, epilogue, get_matmul_precision()
    )
    dense = [one.contiguous() for one in operands]
    made: Array = _family(problem)(problem)(x, weights, *dense)
    return made


def _family(problem: Convolution) -> Family[Convolution]:
    return CONVOLUTION if depthwise.why_not_few(problem) else DEPTHWISE


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
    one_device("convolution", (output, image))
    dtype = dtype or output.dtype
    if splitting.is_needed(image.shape, output.shape, False):

        def of_half(outputs: Array, images: Array, own: Windows) -> Array:
            return weights_gradient(
                outputs, images, own, kernel, channels_last, dtypes.info(output.dtype).acc
            )

        return ops.astype(splitting.weights(output, image, windows, kernel, of_half), dtype)
    layouts = _layout_of(output), _layout_of(image)
    problem = WeightsGradient(*layouts, windows, kernel, channels_last, dtype, get_matmul_precision())
    family = WEIGHTS_GRADIENT if depthwise.why_not_few(problem) else DEPTHWISE_WEIGHTS
    made: Array = family(problem)(output, image)
    return made
