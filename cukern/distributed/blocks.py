"""Sharding of a model's blocks over ranks, with their optimizer (ZeRO stage 3)."""

from __future__ import annotations

from typing import Any

from ..array import Array
from ..errors import DistributedError
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from .group import Group
from .sharded import ShardedModule

__all__ = ["divide_blocks", "like", "require_no_steps"]


class _Blocks:
    """The modules in a model's lists, tuples and dicts; the outermost ones.

    Attributes:
        blocks: the modules, each once.
        outside: the ids of the parameters that belong to no block.
    """

    def __init__(self, model: Module) -> None:
        self.blocks: list[Module] = []
        self.outside: set[int] = set()
        self._seen: set[int] = set()
        self._visit(model)

    def _visit(self, value: Any, contained: bool = False) -> None:
        if isinstance(value, Parameter):
            self.outside.add(id(value))
        if isinstance(value, Module) and id(value) not in self._seen:
            self._seen.add(id(value))
            if contained:
                self.blocks += [] if isinstance(value, ShardedModule) else [value]
                return
            for one in vars(value).values():
                self._visit(one)
        elif isinstance(value, (list, tuple, dict)):
            for one in value.values() if isinstance(value, dict) else value:
                self._visit(one, contained=True)

    def chosen(self) -> list[Module]:
        """The blocks that have parameters and no buffers, and share no parameter with others."""
        own = [{id(one) for one in block.parameters()} for block in self.blocks]
        counts: dict[int, int] = dict.fromkeys(self.outside, 1)
        for ids in own:
            for one in ids:
                counts[one] = counts.get(one, 0) + 1
        return [
            block
            for block, ids in zip(self.blocks, own, strict=True)
            if ids and all(counts[one] == 1 for one in ids) and not any(block.named_buffers())
        ]


def _replaced(value: Any, new: dict[int, ShardedModule]) -> Any:
    """A module's replacement, or a container with modules replaced; lists and dicts change in place."""
    if isinstance(value, Module):
        return new.get(id(value), value)
    if isinstance(value, list):
        value[:] = [_replaced(one, new) for one in value]
    elif isinstance(value, dict):
        value.update({key: _replaced(one, new) for key, one in value.items()})
    elif isinstance(value, tuple):
        items = [_replaced(one, new) for one in value]
        if any(one is not old for one, old in zip(items, value, strict=True)):
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def divide_blocks(
    model: Module, optimizer: Optimizer, group: Group
) -> tuple[Optimizer, dict[int, list[str]]]:
    """Divide a model's blocks over ranks, and create an optimizer like the given one for the parameters afterwards.

    Args:
        model: its blocks are the modules in its lists, tuples and dicts that share no parameter with others; they
            become :class:`.ShardedModule`.
        optimizer: of parameters of the model; it has taken no step, and is of no use afterwards.
        group: the ranks.

    Returns:
        The optimizer; and for each of its parameters that is a shard, by its index, the names that the given optimizer
        had for what it is a part of.

    Raises:
        ValueError: the model has no such blocks, or a parameter of the optimizer is not the model's.
        DistributedError: the optimizer has taken steps.
    """
    require_no_steps(optimizer)
    of_model = {id(one) for one in model.parameters()}
    names = dict(zip(map(id, optimizer.parameters), optimizer.names, strict=True))
    if strange := [name for one, name in names.items() if one not in of_model]:
        raise ValueError(f"DataParallel: model: it lacks the optimizer's parameter {strange[0]!r}")
    blocks = _Blocks(model).chosen()
    if not blocks:
        raise ValueError(
            "DataParallel: model: expected modules in lists, such as a Sequential's layers, that share no parameter "
            "with others and have no buffers"
        )
    group_of = {
        id(optimizer.parameters[i]): number
        for number, one in enumerate(optimizer.groups)
        for i in one.members
    }
    params: list[dict[str, Array]] = [{} for _ in optimizer.groups]
    shards: dict[int, list[str]] = {}
    new: dict[int, ShardedModule] = {}
    divided: set[int] = set()
    for block in blocks:
        whole = block.parameters()
        sharded = new[id(block)] = ShardedModule(block, group, lambda one: group_of.get(id(one)))
        divided.update(map(id, whole))
        for shard, indices in zip(sharded.shards, sharded._indices, strict=True):
            own = [id(whole[i]) for i in indices]
            if own[0] in names:
                shards[id(shard)] = [names[one] for one in own]
                params[group_of[own[0]]][names[own[0]]] = shard
    for name, one in zip(optimizer.names, optimizer.parameters, strict=True):
        if id(one) not in divided:
            params[group_of[id(one)]][name] = one
    for module in [one for _, one in model.named_modules()]:
        for name, value in list(vars(module).items()):
            if (
                isinstance(value, (Module, list, tuple, dict))
                and (other := _replaced(value, new)) is not value
            ):
                setattr(module, name, other)
    groups = [
        {"params": own, **one.options} for own, one in zip(params, optimizer.groups, strict=True) if own
    ]
    similar = like(optimizer, groups)
    return similar, {i: shards[id(one)] for i, one in enumerate(similar.parameters) if id(one) in shards}


def like(optimizer: Optimizer, groups: list[dict[str, Any]]) -> Optimizer:
    """An optimizer of other parameters with the same options."""
    options = {name: getattr(optimizer, name) for name in optimizer._checks}
    return type(optimizer)(groups, masters=optimizer.masters, **options)


def require_no_steps(optimizer: Optimizer) -> None:
    """Refuse an optimizer whose state would be lost.

    Raises:
        DistributedError: it has taken steps.
    """
    if optimizer.steps:
        raise DistributedError(
            f"DataParallel: optimizer: expected one that has made no step, got one of {optimizer.steps}"
        )
