"""DistributedDataParallel around a compiled module: two processes on one machine have eager's gradients."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
import torch.multiprocessing
from torch import nn


def _worker(rank: int, folder: str) -> None:
    import minicompile
    from minicompile.config import config

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    try:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
        ours = copy.deepcopy(module)
        parallel = nn.parallel.DistributedDataParallel(minicompile.compile(ours))
        data = torch.randn(2, 6, 4)
        with config.patch(strict=True):
            for _ in range(2):
                ours.zero_grad()
                parallel(data[rank]).pow(2).mean().backward()
        ((module(data[0]).pow(2).mean() + module(data[1]).pow(2).mean()) / 2).backward()
        for one, other in zip(ours.parameters(), module.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
        Path(folder, f"done{rank}").touch()
    finally:
        torch.distributed.destroy_process_group()


def test_gradients_are_averaged(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_worker, (str(tmp_path),), nprocs=2)
    assert (tmp_path / "done0").exists() and (tmp_path / "done1").exists()
