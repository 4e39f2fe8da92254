"""Measured times of variants, one file for each model of GPU or processor, and what they say of problems near them.

``python -m cukern tune`` writes such a file: for problems of each family the seconds of the variants, measured, and
predicted by their cost models. A measured problem has its own times. Those of another are the predicted ones, each
multiplied by how far off its cost model was for the measured problems near it: the geometric mean of measured /
predicted, weighted by the inverse of the squared distance, among them one in which the model was right, at a distance
of its own. Where no measured problem is within :data:`REACH`, the cost model alone decides. Times of one model of GPU
are never used on another.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..files import write_text

#: The largest distance of a measured problem that says something of another: the root of the summed squares of the
#: binary logarithms of the ratios of their sizes.
REACH = 3.0
#: Added to squared distances, so that nearly equal problems have nearly the same weight.
_NEAREST = 1e-3
#: The weight of the cost model: a problem at a distance of 1 in which it was right.
_PRIOR = 1.0
_SHIPPED = Path(__file__).with_name("measured")

Kind = tuple[tuple[str, Any], ...]
Sizes = tuple[float, ...]


class Timed(NamedTuple):
    """A variant's time for a problem.

    Attributes:
        seconds: measured.
        predicted: by its cost model, in seconds.
        config: the constants with which it was fastest.
    """

    seconds: float
    predicted: float
    config: dict[str, Any]


class Entry(NamedTuple):
    """A measured problem.

    Attributes:
        features: what its time depends on: words, and sizes of at least 0.
        variants: by name.
    """

    features: dict[str, Any]
    variants: dict[str, Timed]

    @property
    def kind(self) -> Kind:
        """The features that are words, which near problems share."""
        return kind_of(self.features)

    @property
    def sizes(self) -> Sizes:
        """The features that are numbers."""
        return sizes_of(self.features)


def kind_of(features: Mapping[str, Any]) -> Kind:
    """The words among features."""
    return tuple(sorted((key, one) for key, one in features.items() if isinstance(one, (str, bool))))


def sizes_of(features: Mapping[str, Any]) -> Sizes:
    """The numbers among features."""
    return tuple(float(one) for key, one in sorted(features.items()) if not isinstance(one, (str, bool)))


def distance(a: Sizes, b: Sizes) -> float:
    """That of two problems' sizes: see :data:`REACH`."""
    return math.dist([math.log2(1 + one) for one in a], [math.log2(1 + one) for one in b])


def carried(
    entries: Sequence[Entry], features: Mapping[str, Any], predicted: Mapping[str, float]
) -> dict[str, float]:
    """The seconds of a problem's variants, from those of the measured problems within reach.

    Args:
        entries: the measured problems.
        features: of the problem.
        predicted: the seconds by its variants' cost models.
    """
    kind, sizes = kind_of(features), sizes_of(features)
    near = [(distance(sizes, one.sizes), one) for one in entries if one.kind == kind]
    near = [(far, one) for far, one in near if far <= REACH]
    own = next((one.variants for far, one in near if far == 0), {})
    found = {}
    for name, seconds in predicted.items():
        if name in own:
            found[name] = own[name].seconds
            continue
        weights = total = 0.0
        for far, one in near:
            timed = one.variants.get(name)
            if timed is not None and timed.predicted > 0:
                weight = 1 / (far * far + _NEAREST)
                weights += weight
                total += weight * math.log(timed.seconds / timed.predicted)
        if weights:
            found[name] = seconds * math.exp(total / (weights + _PRIOR))
    return found


def times(
    device: str, family: str, features: Mapping[str, Any], predicted: Mapping[str, float]
) -> dict[str, float]:
    """What is known by measurement of the seconds of a problem's variants on a device of this name."""
    entries = load(device).get(family)
    return carried(entries, features, predicted) if entries else {}


def config(device: str, family: str, features: Mapping[str, Any], variant: str) -> dict[str, Any] | None:
    """The constants with which a variant was fastest for this very problem; None if it was not measured."""
    for one in load(device).get(family, ()):
        if one.features == features and variant in one.variants:
            return one.variants[variant].config
    return None


def regret(entries: Sequence[Entry]) -> list[float]:
    """For each measured problem how much longer the variant takes that is chosen by the others than the fastest one.

    0.1 says 10 % longer.
    """
    found = []
    for i, one in enumerate(entries):
        predicted = {name: timed.predicted for name, timed in one.variants.items()}
        known = carried([*entries[:i], *entries[i + 1 :]], one.features, predicted)
        chosen = min(predicted, key=lambda name: known.get(name, predicted[name]))
        best = min(timed.seconds for timed in one.variants.values())
        found.append(one.variants[chosen].seconds / best - 1)
    return found


def file_name(device: str) -> str:
    """The name of the file of a model of GPU or processor."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


def user_folder() -> Path:
    """Where ``python -m cukern tune`` writes: ``CUKERN_TUNED_DIR``, else ``tuned`` in the user's folder of data."""
    chosen = os.environ.get("CUKERN_TUNED_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_data_dir("cukern", appauthor=False)) / "tuned"


@lru_cache(maxsize=8)
def load(device: str) -> dict[str, list[Entry]]:
    """The measured problems of a device by family: for each family the user's if there are any, else the package's."""
    paths = [folder / file_name(device) for folder in (_SHIPPED, user_folder())]
    return {family: rows for path in paths if path.is_file() for family, rows in read(path).items()}


def read(path: Path) -> dict[str, list[Entry]]:
    """The measured problems of a file by family.

    Raises:
        ValueError: the file is none that ``python -m cukern tune`` has written; the error names it.
    """
    try:
        families = json.loads(path.read_text())["families"]
        return {
            family: [
                Entry(one["problem"], {name: Timed(**timed) for name, timed in one["variants"].items()})
                for one in rows
            ]
            for family, rows in families.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a file of measured times: {type(error).__name__}: {error}") from None


def save(path: Path, about: Mapping[str, Any], families: Mapping[str, Sequence[Entry]]) -> None:
    """Write measured problems.

    Args:
        path: the file.
        about: where and when they were measured.
        families: by name.
    """
    rows = {
        family: [
            {
                "problem": one.features,
                "variants": {name: timed._asdict() for name, timed in one.variants.items()},
            }
            for one in entries
        ]
        for family, entries in families.items()
    }
    lines = [f'{{"about": {json.dumps(about)},', '"families": {']
    for i, (family, entries) in enumerate(rows.items()):
        body = ",\n".join(json.dumps(one) for one in entries)
        lines.append(f"{json.dumps(family)}: [\n{body}\n]{',' if i < len(rows) - 1 else ''}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join([*lines, "}}", ""]))
