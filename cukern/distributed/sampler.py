"""The sampler of a rank's part of each batch, and per-rank random seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import random
from .group import Group, world

__all__ = ["Sampler", "seed"]


def seed(seed: int, group: Group | None = None) -> None:
    """Restart the streams of :mod:`cukern.random`, with other numbers on each rank, all from one seed.

    Args:
        seed: as in :func:`cukern.random.seed`.
        group: the ranks; all when None.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> ck.distributed.seed(3)
    """
    random.seed([seed, (world() if group is None else group).rank])


class Sampler:
    """The samples of this rank, batch after batch, in an order that all ranks derive from one seed.

    Every epoch has its own random order. A batch of all ranks is divided equally among them, in the order of the ranks,
    so that the samples of a step do not depend on the number of ranks. An incomplete last batch is left out.

    Args:
        samples: how many there are.
        batch: how many all ranks together take in a step; divisible by the number of ranks.
        seed: of the orders.
        group: the ranks; all when None.

    Raises:
        ValueError: ``batch`` is not divisible, or there are fewer samples than that.

    Attributes:
        epoch, position: the number of epochs that are done, and of batches of the current one.

    >>> import cukern as ck
    >>> _ = ck.distributed.init()
    >>> sampler = Sampler(10, batch=4, seed=0)
    >>> [len(batch) for batch in sampler]
    [4, 4]
    >>> sampler.state
    {'epoch': 1, 'position': 0}
    """

    def __init__(self, samples: int, batch: int, seed: int, group: Group | None = None) -> None:
        self._group = world() if group is None else group
        if batch < 1 or batch % self._group.size:
            raise ValueError(
                f"Sampler: batch: expected a positive multiple of {self._group.size}, the ranks, got {batch!r}"
            )
        if samples < batch:
            raise ValueError(f"Sampler: samples: expected at least a batch of {batch}, got {samples!r}")
        self._samples, self._batch, self._seed = samples, batch, seed
        self.epoch = self.position = 0

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self._samples // self._batch

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        """The rest of this epoch: the indices of this rank's samples for each step."""
        order = np.random.Generator(np.random.Philox([self._seed, self.epoch])).permutation(self._samples)
        share = self._batch // self._group.size
        while self.position < len(self):
            begin = self.position * self._batch + self._group.rank * share
            self.position += 1  # a state taken in the loop's body counts the batch as done
            yield order[begin : begin + share]
        self.epoch, self.position = self.epoch + 1, 0

    @property
    def state(self) -> dict[str, int]:
        """The sampler's position, as a dict of integers; assign a saved state to go on from there.

        It is the same on every rank, and for any number of ranks.
        """
        return {"epoch": self.epoch, "position": self.position}

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        epoch, position = int(state["epoch"]), int(state["position"])
        if epoch < 0 or not 0 <= position <= len(self):
            raise ValueError(
                f"state: expected epoch >= 0 and 0 <= position <= {len(self)}, got {dict(state)}"
            )
        self.epoch, self.position = epoch, position
