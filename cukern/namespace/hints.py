"""Names of CuPy, PyTorch and JAX that cukern lacks, and what to write instead.

For arrays these are descriptors instead of a ``__getattr__``, which would slow down all other attributes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..array import Array
from ..array.operators import FUNCTIONS
from ..function import Context
from . import INTERNAL

_GENERATOR = "write rng = cukern.random.default_rng(seed), then rng"
_TAPE = "write with cukern.Tape() as tape: ..., then tape.gradient(y, x), or cukern.grad(f)(x)"
_STREAM = "launches are on CuPy's current stream: with cupy.cuda.Stream(): ..."

#: Of the module ``cukern``.
NAMESPACE: Mapping[str, str] = {
    "ElementwiseKernel": "write cukern.elementwise(name, expression), or @cukern.fuse above a function of arrays",
    "RawKernel": "write kernel = cukern.Kernel(source), then kernel(x, y, n, grid=blocks)",
    "RawModule": "write cukern.Kernel(source) for each kernel",
    "ReductionKernel": "write cukern.reduction(name, map_expr, reduce_expr, post_map_expr, identity=identity)",
    "Tensor": "the class is cukern.Array, made by cukern.asarray",
    "as_tensor": "write cukern.asarray",
    "asnumpy": "write x.numpy()",
    "autograd": _TAPE,
    "bmm": "write cukern.matmul, or x @ y",
    "cat": "write cukern.concat",
    "clamp": "write cukern.clip",
    "compile": "write @cukern.jit",
    "cuda": "write with cukern.device('cuda:0'): ..., or x.to_device('cuda:0'); " + _STREAM,
    "custom_jvp": "write a subclass of cukern.Function with a jvp",
    "custom_vjp": "write a subclass of cukern.Function",
    "dataclass": "dicts, tuples and cukern.nn.Module hold arrays",
    "device_put": "write x.to_device(device)",
    "div": "write cukern.divide, or x / y",
    "double": "the dtype is cukern.float64",
    "dtype": "dtypes are NumPy's: write numpy.dtype, or cukern.float32 and the other names",
    "enable_grad": "write with cukern.Tape() as tape: ...",
    "errstate": "kernels give inf and nan without warnings",
    "float": "the dtype is cukern.float32",
    "from_numpy": "write cukern.asarray, which shares the memory of a NumPy array on the host",
    "func": "write cukern.grad, vjp, jvp, linearize, jacobian or hessian",
    "gather": "write cukern.take_along_axis",
    "get_default_memory_pool": "the memory of a GPU is CuPy's: cupy.get_default_memory_pool()",
    "half": "the dtype is cukern.float16",
    "index_select": "write cukern.take",
    "inference_mode": "write with cukern.stop_recording(): ...; outside of a tape nothing is recorded",
    "is_tensor": "write isinstance(x, cukern.Array)",
    "jacfwd": "write cukern.jacobian",
    "jacrev": "write cukern.jacobian",
    "lax": "the functions are in cukern itself",
    "long": "the dtype is cukern.int64",
    "manual_seed": "write cukern.random.seed(seed), and cukern.nn.init.seed(seed) for parameters",
    "masked_select": "write x[mask]",
    "mm": "write cukern.matmul, or x @ y",
    "mul": "write cukern.multiply, or x * y",
    "ndarray": "the class is cukern.Array, made by cukern.asarray",
    "no_grad": "write with cukern.stop_recording(): ...; outside of a tape nothing is recorded",
    "numpy": "the functions are in cukern itself",
    "permute": "write cukern.permute_dims",
    "pmap": "run one process for each GPU: cukern.distributed has collectives, DataParallel and Mesh",
    "rand": "write cukern.random.random(size)",
    "randint": "write cukern.random.integers(low, high, size)",
    "randn": "write cukern.random.normal(size=size)",
    "randperm": "write cukern.random.permutation(n)",
    "remat": "write cukern.checkpoint",
    "scatter_add": "write x.at[places].add(values)",
    "set_grad_enabled": "write with cukern.stop_recording(): ...",
    "sub": "write cukern.subtract, or x - y",
    "tensor": "write cukern.asarray, or cukern.array for a copy",
    "tree_map": "write cukern.tree.map",
    "unsqueeze": "write cukern.expand_dims",
    "utils": "write cukern.optim.clip_by_global_norm, cukern.checkpoint or cukern.save_safetensors",
}

#: Of ``cukern.random``, ``cukern.nn`` and the other modules.
MODULES: Mapping[str, Mapping[str, str]] = {
    "random": {
        "PRNGKey": f"{_GENERATOR}.normal(size=size) or another method; each call advances rng",
        "key": f"{_GENERATOR}.normal(size=size) or another method; each call advances rng",
        "manual_seed": "write cukern.random.seed(seed)",
        "split": "each call advances a generator; write first, second = rng.split(2) for independent streams",
    },
    "nn": {
        "BatchNorm1d": "write cukern.nn.BatchNorm, for any number of axes",
        "BatchNorm2d": "write cukern.nn.BatchNorm, for any number of axes",
        "Buffer": "an array that is an attribute of a module is a buffer",
        **dict.fromkeys(
            ("Dropout1d", "Dropout2d", "Dropout3d"), "write cukern.nn.Dropout(p, broadcast_axes=(2, 3))"
        ),
        "Identity": "write lambda x: x",
        **dict.fromkeys(
            ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
            "write cukern.nn.GroupNorm(channels, channels)",
        ),
        "PReLU": "write cukern.leaky_relu(x, weight), of a Parameter of shape (C, 1, 1)",
        "CrossEntropyLoss": "write cukern.nn.cross_entropy(logits, targets)",
        "Flatten": "write lambda x: x.reshape(x.shape[0], -1)",
        "ModuleDict": "a dict of modules is an attribute like any other",
        "ModuleList": "a list of modules is an attribute like any other",
        "MultiheadAttention": "write cukern.nn.MultiHeadAttention",
        "ParameterDict": "a dict of parameters is an attribute like any other",
        "ParameterList": "a list of parameters is an attribute like any other",
        "utils": "gradients are clipped by cukern.optim.clip_by_global_norm",
    },
    "nn.functional": {
        "affine_grid": "write points @ cukern.swapaxes(theta, 1, 2), for points (x, y, 1) of pixels, from -1 to 1",
        "bilinear": "write cukern.einsum('ni,oij,nj->no', x, weight, y)",
        "celu": "write alpha * cukern.elu(x / alpha)",
        "channel_shuffle": "write cukern.swapaxes(x.reshape(n, groups, -1, h, w), 1, 2).reshape(x.shape)",
        "cosine_embedding_loss": (
            "write cukern.where(y > 0, 1 - c, cukern.relu(c - margin)).mean(), "
            "for c = cukern.nn.cosine_similarity(a, b)"
        ),
        "dot_product_attention": "write cukern.nn.attention(q, k, v), with the axis of heads before that of steps",
        **dict.fromkeys(
            ("dropout1d", "dropout2d", "dropout3d"),
            "write cukern.nn.dropout(x, p, broadcast_axes=(2, 3)): elements along these axes are dropped together",
        ),
        "embedding_bag": "write cukern.nn.embedding(ids, weight).mean(axis=1)",
        "gaussian_nll_loss": "write (0.5 * (cukern.log(variance) + (x - y) ** 2 / variance)).mean()",
        "gumbel_softmax": "write cukern.softmax((x + cukern.random.gumbel(size=x.shape)) / tau)",
        "hard_sigmoid": "write cukern.hardsigmoid",
        "hard_silu": "write cukern.hardswish",
        "hard_swish": "write cukern.hardswish",
        "hard_tanh": "write cukern.clip(x, -1, 1)",
        "hardshrink": "write cukern.where(abs(x) > bound, x, 0)",
        "hardtanh": "write cukern.clip(x, -1, 1)",
        "hinge_embedding_loss": "write cukern.where(y > 0, x, cukern.relu(margin - x)).mean()",
        "identity": "write lambda x: x",
        "initializers": "write cukern.nn.init",
        "instance_norm": "write cukern.nn.group_norm(x, x.shape[1], weight, bias)",
        "logsigmoid": "write cukern.log_sigmoid",
        "margin_ranking_loss": "write cukern.relu(margin - y * (a - b)).mean()",
        "multilabel_soft_margin_loss": "write cukern.nn.binary_cross_entropy_with_logits(x, y)",
        "pad": "write cukern.pad",
        "pairwise_distance": "write cukern.linalg.vector_norm(a - b, axis=-1)",
        "poisson_nll_loss": "write (cukern.exp(x) - y * x).mean()",
        "prelu": "write cukern.leaky_relu(x, weight), of a weight (C, 1, 1) for channels of (N, C, H, W)",
        "soft_margin_loss": "write cukern.softplus(-y * x).mean()",
        "soft_sign": "write cukern.softsign",
        "softmin": "write cukern.softmax(-x, axis)",
        "softshrink": "write x - cukern.clip(x, -bound, bound)",
        "squareplus": "write (x + cukern.sqrt(x * x + b)) / 2",
        "standardize": "write cukern.nn.layer_norm(x, x.shape[-1])",
        "swish": "write cukern.silu",
        "tanhshrink": "write x - cukern.tanh(x)",
        "threshold": "write cukern.where(x > bound, x, value)",
        "triplet_margin_loss": (
            "write cukern.relu(d(a, p) - d(a, n) + margin).mean(), for d = lambda a, b: "
            "cukern.linalg.vector_norm(a - b, axis=-1)"
        ),
    },
    "optim": {
        "lr_scheduler": "lr is a function of the step: write optim.SGD(model, lr=optim.CosineDecay(0.1, steps=1000))",
        "apply_updates": "write optimizer.step(gradients)",
    },
    "sparse": {
        "bsr_matrix": "write bsr_array, whose * is by entry, and @ the matrix product",
        "coo_matrix": "write coo_array, whose * is by entry, and @ the matrix product",
        "csc_array": "write csr_array(...).T: rows and columns change places",
        "csr_matrix": "write csr_array, whose * is by entry, and @ the matrix product",
    },
    "testing": {
        "assert_allclose": "write cukern.testing.assert_close(actual, expected)",
        "check_grads": "write cukern.testing.gradcheck(f, inputs)",
    },
}

#: Of arrays.
ARRAY: Mapping[str, str] = {
    "add_": "write x += y",
    "backward": _TAPE,
    "block_until_ready": "write x.device.synchronize()",
    "bool": "write x.astype(cukern.bool)",
    "chunk": "write cukern.array_split(x, n, axis)",
    "clamp": "write x.clip(low, high)",
    "clone": "write x.copy()",
    "copy_": "write x[...] = y",
    "cpu": "write x.to_device('host'), or x.numpy() for a NumPy array",
    "cuda": "write x.to_device('cuda')",
    "data_ptr": "cupy.asarray(x).data.ptr, or numpy.asarray(x).ctypes.data on the host",
    "detach": "write cukern.stop_gradient(x)",
    "dim": "write x.ndim",
    "div_": "write x /= y",
    "double": "write x.astype(cukern.float64)",
    "expand": "write cukern.broadcast_to(x, shape)",
    "fill_": "write x[...] = value",
    "float": "write x.astype(cukern.float32)",
    "gather": "write cukern.take_along_axis(x, indices, axis)",
    "get": "write x.numpy()",
    "grad": _TAPE,
    "grad_fn": _TAPE,
    "half": "write x.astype(cukern.float16)",
    "index_select": "write x.take(indices, axis)",
    "int": "write x.astype(cukern.int32)",
    "is_cuda": "write x.device.kind == 'cuda'",
    "is_leaf": "a tape watches parameters, and tape.watch(x) others",
    "long": "write x.astype(cukern.int64)",
    "masked_fill": "write cukern.where(mask, value, x)",
    "masked_select": "write x[mask]",
    "mul_": "write x *= y",
    "norm": "write cukern.linalg.norm(x)",
    "numel": "write x.size",
    "permute": "write cukern.permute_dims(x, axes), or x.transpose(*axes)",
    "register_hook": _TAPE,
    "requires_grad": "write tape.watch(x), or cukern.nn.Parameter(x); " + _TAPE,
    "requires_grad_": "write tape.watch(x), or cukern.nn.Parameter(x); " + _TAPE,
    "retain_grad": "write tape.gradient(y, x), of any x that went into y",
    "repeat_interleave": "write x.repeat(n, axis), which is NumPy's",
    "scatter_": "write x = x.at[places].set(values), or x[places] = values",
    "scatter_add": "write x.at[places].add(values)",
    "scatter_add_": "write x = x.at[places].add(values)",
    "sub_": "write x -= y",
    "t": "write x.T",
    "to": "write x.to_device(device), or x.astype(dtype)",
    "type": "write x.astype(dtype)",
    "type_as": "write x.astype(y.dtype)",
    "unbind": "write cukern.unstack(x, axis=axis)",
    "unsqueeze": "write cukern.expand_dims(x, axis), or x[:, None]",
    "view_as": "write x.reshape(y.shape)",
    "where": "write cukern.where(condition, x, y)",
    "zero_": "write x[...] = 0",
}

#: Of the ``ctx`` of a :class:`cukern.Function`.
CONTEXT: Mapping[str, str] = {
    "mark_dirty": "an output is a new array; forward writes to no argument",
    "save_for_forward": "there is no forward mode; backward is differentiated",
    "saved_tensors": "write ctx.saved_arrays",
    "saved_variables": "write ctx.saved_arrays",
}


#: Of modules of :mod:`cukern.nn`.
MODULE: Mapping[str, str] = {
    "add_module": "a module that is an attribute is a submodule",
    "apply": "write a loop over the modules of model.named_modules()",
    "bfloat16": "write model.astype(cukern.bfloat16)",
    "buffers": "write dict(model.named_buffers())",
    "children": "write model.named_modules()",
    "cpu": "write model.to_device('host')",
    "cuda": "write model.to_device('cuda')",
    "double": "write model.astype(cukern.float64)",
    "float": "write model.astype(cukern.float32)",
    "half": "write model.astype(cukern.float16)",
    "modules": "write model.named_modules()",
    "register_buffer": "an array that is an attribute of a module is a buffer",
    "register_module": "a module that is an attribute is a submodule",
    "register_parameter": "a cukern.nn.Parameter that is an attribute is a parameter",
    "requires_grad_": "write model.freeze() or model.unfreeze()",
    "to": "write model.to_device(device), or model.astype(dtype)",
    "zero_grad": "tape.gradient gives new gradients each time",
}

#: Of optimizers.
OPTIMIZER: Mapping[str, str] = {
    "add_param_group": "write a new optimizer with all groups, and load_state_dict",
    "apply_gradients": "write optimizer.step(gradients)",
    "init": "an optimizer keeps its state itself: write optimizer.step(gradients)",
    "param_groups": "write optimizer.groups; options such as optimizer.lr may be set between steps",
    "update": "write optimizer.step(gradients)",
    "zero_grad": "tape.gradient gives new gradients each time: write optimizer.step(gradients)",
}


class Elsewhere:
    """An attribute that objects lack: reading it raises an AttributeError that says what to write."""

    def __init__(self, name: str, hint: str) -> None:
        self._name, self._hint = name, hint

    def __get__(self, instance: object, owner: type) -> Any:
        raise _absent(owner, self._name, self._hint)


def _absent(owner: type, name: str, hint: str) -> AttributeError:
    return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}{'; ' if hint else ''}{hint}")


def hinting(hints: Mapping[str, str]) -> Callable[[object, str], Any]:
    """The method ``__getattr__`` of a class, whose errors say what to write instead of missing names."""

    def get(self: object, name: str) -> Any:
        if any(name in vars(cls) for cls in type(self).__mro__):
            return object.__getattribute__(
                self, name
            )  # evaluates a property again, which raises its own AttributeError
        raise _absent(type(self), name, hints.get(name, ""))

    return get


def _install(owner: type, hints: Mapping[str, str]) -> None:
    for name in hints.keys() - set(dir(owner)):
        setattr(owner, name, Elsewhere(name, hints[name]))


def missing(
    module: str,
    public: Sequence[str],
    hints: Mapping[str, str] | None = None,
    numpys: str = "",
    later: Mapping[str, str] | None = None,
) -> Any:
    """The functions ``__getattr__`` and ``__dir__`` of a module: hints for missing names, and its public names.

    Args:
        module: the module's name.
        public: its public names.
        hints: what to write instead of missing names.
        numpys: the corresponding NumPy module, whose names get a hint too.
        later: names that are imported at first use, by the submodule that has them; by "" submodules themselves.
    """
    places = {name: place for place, names in (later or {}).items() for name in names.split()}

    def get(name: str) -> object:
        if name in places:
            place = places[name]
            found = importlib.import_module(f"{module}.{place or name}")
            if place:
                found = vars(sys.modules[module])[name] = getattr(found, name)
            return found
        hint = (hints or {}).get(name, "")
        if not hint and numpys and hasattr(importlib.import_module(numpys), name):
            hint = f"NumPy has it: {numpys}.{name} takes x.numpy()"
        raise AttributeError(f"module {module!r} has no attribute {name!r}{'; ' if hint else ''}{hint}")

    return get, lambda: list(public)


_install(Array, ARRAY)
_install(Array, {name: f"write cukern.{name}(x)" for name in FUNCTIONS.keys() - INTERNAL})
_install(Context, CONTEXT)
