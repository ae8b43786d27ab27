"""Training under each layout, simulated and on real processes, equals training in one process."""

import re
from typing import Any

import job
import numpy as np
import pytest
import training_cases

import oneflow as flow


@pytest.mark.parametrize("name", training_cases.LAYOUTS)
def test_simulated_ranks_train_like_one_process(name: str) -> None:
    training_cases.check(name, [0, 1])


@pytest.mark.parametrize("count", [2, 4])
def test_processes_train_like_one_process(count: int) -> None:
    assert job.run("training_cases.py", count).count("is done") == count


@pytest.mark.parametrize("loss", ["cross_entropy", "mse_loss"])
@pytest.mark.parametrize("sizes", [(3, 4, 64), (64, 2, 3)], ids=str)
@pytest.mark.parametrize("labels", [flow.sbp.split(0), flow.sbp.broadcast], ids=str)
def test_data_parallel_gradients_alone_cross_ranks(sizes: tuple[int, int, int], labels: Any, loss: str) -> None:
    """Every gradient is summed over ranks where it is made; labels that are whole move scores, nothing else."""
    pair = flow.placement("cpu", [0, 1])
    net = flow.nn.Sequential(flow.nn.Linear(*sizes[:2]), flow.nn.ReLU(), flow.nn.Linear(*sizes[1:]))
    optimizer = flow.optim.SGD(net.parameters(), lr=0.1)
    model = flow.nn.parallel.DistributedDataParallel(net, pair)

    @flow.compile
    def step(x: Any, y: Any) -> Any:
        getattr(flow.nn.functional, loss)(model(x), y.to_global(pair, labels)).backward()
        optimizer.step()
        optimizer.zero_grad()

    classes = {"cross_entropy": np.zeros(8, np.int64), "mse_loss": np.ones((8, sizes[2]), np.float32)}
    step(np.ones((8, sizes[0]), np.float32), classes[loss])
    found = re.findall(r"oneflow\.ccl_(\w+).* : \(tensor<([0-9x]*)x?f32>\)", step.ir("physical"))
    sums = sorted(shape.rstrip("x") for kind, shape in found if kind == "all_reduce")
    wanted = sorted("x".join(map(str, p.shape)) for p in net.parameters())
    assert [s for s in sums if s] == wanted
    others = [shape.rstrip("x") for kind, shape in found if kind != "all_reduce"]
    scores = {f"{8 // a}x{-(-sizes[2] // b)}" for a, b in ((1, 2), (2, 1))} | {"8x1"}
    assert set(others) <= (scores if labels == flow.sbp.broadcast else set()), found
