"""What the tests of the tape share."""

from __future__ import annotations

import numpy as np

import cukern as ck


def f64(values):
    return ck.asarray(np.asarray(values, np.float64))


def gradient(f, *arrays, **options):
    """The tape's gradients of ``f`` at arrays that are watched."""
    with ck.Tape() as active:
        active.watch(arrays)
        target = f(*arrays)
    return active.gradient(target, list(arrays), **options)


def function(forward, backward):
    """A Function named F of two plain functions."""
    return type("F", (ck.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
