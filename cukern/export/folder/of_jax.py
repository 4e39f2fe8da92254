"""A program as a function of JAX arrays, with a derivative."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import runtime


def operator(program: Any) -> Callable[..., Any]:
    """The function of arrays of the program's dtypes on a GPU, under ``jit`` and ``vmap``; it runs on XLA's stream."""
    jax: Any = importlib.import_module("jax")
    buffer_callback: Any = importlib.import_module("jax.experimental.buffer_callback").buffer_callback

    def address(buffer: Any) -> int:
        kind, _ = buffer.__dlpack_device__()
        if int(kind) == 1:
            return int(np.asarray(buffer).ctypes.data)
        if str(buffer.dtype) == "bfloat16":  # which the other protocol lacks
            return _address(buffer.__dlpack__())
        return int(buffer.__cuda_array_interface__["data"][0])

    def launched(direction: str, arrays: Sequence[Any]) -> tuple[Any, ...]:
        make, ranks, words = getattr(program, direction), program.RANKS[direction], program.WORDS[direction]
        plan = runtime.planned(program, make, ranks, words, [one.shape for one in arrays])
        constants = {
            i: np.frombuffer(one, np.uint8) for i, one in enumerate(plan.memory) if isinstance(one, bytes)
        }
        scratch = [i for i in range(len(plan.memory)) if i not in constants]

        def callback(context: Any, out: Any, *given: Any) -> None:
            kind, index = given[0].__dlpack_device__()
            if int(kind) == 1 and runtime.launch is runtime.on_gpu:
                raise RuntimeError(f"{program.NAME} runs on GPUs; its arguments are on a CPU")
            made, rest = out[: len(plan.results)], dict(zip(scratch, out[len(plan.results) :], strict=True))
            rest.update(zip(constants, given[len(arrays) :], strict=True))
            further = [rest[i] for i in range(len(plan.memory))]
            addresses = [address(one) for one in (*given[: len(arrays)], *made, *further)]
            runtime.run(program, plan, addresses, int(index), 0 if int(kind) == 1 else context.stream)

        shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in plan.results]
        shapes += [jax.ShapeDtypeStruct((plan.memory[i],), "uint8") for i in scratch]
        call = buffer_callback(callback, shapes, vmap_method="sequential")
        return tuple(call(*arrays, *constants.values())[: len(plan.results)])

    def returned(out: Sequence[Any]) -> Any:
        return tuple(out[: program.OUTPUTS]) if program.SEVERAL else out[0]

    def checked(arrays: Sequence[Any]) -> list[Any]:
        found = [jax.numpy.asarray(one) for one in arrays]
        for (name, dtype, _), one in zip(program.ARGUMENTS, found, strict=True):
            if str(one.dtype) != dtype:
                raise TypeError(f"{program.NAME}: argument {name}: expected {dtype}, got {one.dtype}")
        return found

    if not program.DIFFERENTIABLE:
        return lambda *arrays: returned(launched("forward", checked(arrays)))

    floating = [i for i, (_, _, one) in enumerate(program.ARGUMENTS) if one]
    whole = jax.custom_vjp(lambda *arrays: launched("forward", arrays))

    def forward(*arrays: Any) -> Any:
        out = launched("forward", arrays)
        return out, (arrays, out)

    def backward(kept: Any, cotangents: Any) -> Any:
        arrays, out = kept
        live = [one for one, kind in zip(cotangents, program.KINDS, strict=True) if kind]
        found: list[Any] = [None] * len(arrays)
        for i, one in zip(floating, launched("backward", [*arrays, *out, *live]), strict=True):
            found[i] = one
        return tuple(found)

    whole.defvjp(forward, backward)
    return lambda *arrays: returned(whole(*checked(arrays)))


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _address(capsule: Any) -> int:
    """The address of the first element in a DLPack capsule: see dlpack.h."""
    for name, begin in ((b"dltensor", 0), (b"dltensor_versioned", 32)):
        if _is_valid(capsule, name):
            tensor = _pointer(capsule, name) + begin
            start, skipped = (ctypes.c_uint64.from_address(tensor + at).value for at in (0, 40))
            return start + skipped
    raise BufferError("expected a DLPack capsule")
