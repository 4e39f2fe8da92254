"""What cost models share: rates of a device, estimated from its limits, and waves of blocks."""

from __future__ import annotations

from ..device.interface import Properties
from ..kernel.sizes import divide_up

#: Operations a second of one GPU multiprocessor: float32 multiplications and additions on CUDA cores.
SIMT_FLOPS = 128 * 2 * 1.7e9
#: Operations of tensor cores for one of the CUDA cores, for elements of so many bytes.
TENSOR_CORES = {1: 32, 2: 16, 4: 8, 8: 0.5}
#: The same of one thread of the host, in plain C++.
HOST_FLOPS = 4e9
#: And at most, in vectors of 64 bytes.
HOST_PEAK = 160e9
#: Those of a BLAS.
HOST_BLAS = 80e9
#: Bytes a second of one GPU multiprocessor's share of the memory, and of one thread of the host.
GPU_BYTES = 30e9
HOST_BYTES = 6e9
#: Bytes of a GPU's L2 for each multiprocessor: arrays that fit there are mostly there.
L2_BYTES = 3e5
#: The bandwidth of reading the L2, in that of the memory: measured on an H200.
L2_RATE = 2
#: Seconds of a launch, from the end of the one before: measured on an H200.
GPU_LAUNCH = 2e-6
HOST_LAUNCH = 10e-6


def is_host(limits: Properties) -> bool:
    """Whether these are the limits of a host, whose threads have long loops."""
    return limits.compute_capability == (0, 0)


def flops(limits: Properties) -> float:
    """Operations a second in float32."""
    return limits.multiprocessors * (HOST_FLOPS if is_host(limits) else SIMT_FLOPS)


def bandwidth(limits: Properties) -> float:
    """Bytes a second of memory."""
    return limits.multiprocessors * (HOST_BYTES if is_host(limits) else GPU_BYTES)


def launch(limits: Properties) -> float:
    """Seconds of a launch."""
    return HOST_LAUNCH if is_host(limits) else GPU_LAUNCH


def moving(read: float, written: float, limits: Properties, writing: float = 1) -> float:
    """Seconds in which a kernel reads and writes so many bytes once.

    Args:
        read: bytes.
        written: bytes.
        limits: of the device.
        writing: the share of the bandwidth that its writes reach on a GPU.
    """
    if is_host(limits):
        return (read + written) / bandwidth(limits)
    in_l2 = read + written <= L2_BYTES * limits.multiprocessors
    return (read / (L2_RATE if in_l2 else 1) + written / writing) / bandwidth(limits)


def waves(blocks: int, limits: Properties, resident: int = 1) -> int:
    """How often all multiprocessors are filled with ``resident`` blocks each."""
    return divide_up(blocks, limits.multiprocessors * resident)


def least_seconds(
    operations: float, moved: float, itemsize: int, tensor_cores: bool, limits: Properties
) -> float:
    """The time in which a device moves so many bytes, or computes so many products of elements, whichever is longer."""
    if is_host(limits):
        rate = limits.multiprocessors * HOST_PEAK
    else:
        rate = flops(limits) * (TENSOR_CORES[itemsize] if tensor_cores else 1)
    return max(operations / rate, moved / bandwidth(limits))
