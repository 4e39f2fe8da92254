"""Dask's own cluster with a worker for each device."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import cukern as ck

distributed: Any = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
VALUES = np.random.default_rng(0).normal(size=(64, 48)).astype("float32")


def workers_of(count: int) -> dict[int, Any]:
    """One process a device: each sees only its own GPU, and here computes on the host."""
    environment = {"CUKERN_DEVICE": "host", "OMP_NUM_THREADS": "1"}
    return {
        i: {
            "cls": distributed.Nanny,
            "options": {
                "nthreads": 1,
                "env": {**environment, "CUDA_VISIBLE_DEVICES": str(i)},
                "host": "127.0.0.1",
            },
        }
        for i in range(count)
    }


@pytest.mark.thorough
def test_two_workers_compute_on_chunks_of_cukern() -> None:
    ck.distributed.register_dask()  # once Dask's scheduler is imported
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard": False},
    }
    with (
        distributed.SpecCluster(workers=workers_of(2), scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        seen = client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
        assert sorted(seen.values()) == ["0", "1"]
        given = da.from_array(VALUES, chunks=(8, 48)).map_blocks(ck.asarray, meta=ck.zeros((0, 0)))
        chunks = given.persist()
        distributed.wait(chunks)
        holders = {worker for own in client.who_has().values() for worker in own}
        assert holders == set(seen)
        # Each product needs chunks of both workers, which pass between them.
        made = (chunks @ chunks.T).sum(axis=0).compute()
        assert type(made) is ck.Array
        np.testing.assert_allclose(np.asarray(made), (VALUES @ VALUES.T).sum(axis=0), rtol=1e-3, atol=1e-4)
        s = da.linalg.svd(chunks)[1].compute()
        np.testing.assert_allclose(np.asarray(s), np.linalg.svd(VALUES)[1], rtol=1e-4)
