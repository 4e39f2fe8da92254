"""Several processes, each with a GPU of its own or on the host's cores, that work on one problem.

Arrays pass between them by NCCL on GPUs and by MPI on the host. Start them by ``python -m cukern launch``, torchrun,
``mpiexec`` or Slurm.
"""

from .. import optim as _optim  # noqa: F401 - whole, before a module of it: threads may import at once
from .checkpoint import Checkpoint, Piece, last_checkpoint, load_checkpoint, save_checkpoint
from .collectives import *  # noqa: F403
from .collectives import __all__ as _collectives
from .dask_chunks import register_dask
from .data_parallel import DataParallel
from .group import Group, Mesh, init, new_group, rank, shutdown, size, world
from .sampler import Sampler, seed
from .sharded import ShardedModule, load_model_state, model_state, shard_module
from .tensor_parallel import ColumnLinear, ParallelAttention, ParallelEmbedding, RowLinear, SequenceParallel

__all__ = [
    "Checkpoint",
    "ColumnLinear",
    "DataParallel",
    "Group",
    "Mesh",
    "ParallelAttention",
    "ParallelEmbedding",
    "Piece",
    "RowLinear",
    "Sampler",
    "SequenceParallel",
    "ShardedModule",
    "init",
    "last_checkpoint",
    "load_checkpoint",
    "load_model_state",
    "model_state",
    "new_group",
    "rank",
    "register_dask",
    "save_checkpoint",
    "seed",
    "shard_module",
    "shutdown",
    "size",
    "world",
]
__all__ += _collectives
