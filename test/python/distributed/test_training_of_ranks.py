"""Training under each layout, simulated and on real processes, equals training in one process."""

import re
from typing import Any

import job
import numpy as np
import pytest
import training_cases

import oneflow as flow
from oneflow.dialect.oneflow import create_context, desc_of
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.triton import plan
from oneflow.lowering.triton.program import read_program
from oneflow.passes.sbp.collectives import collectives_of
from oneflow.runtime.executable import program_source


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
    found = sums_and_others(step.ir("physical"))
    sums = sorted(shape for kind, shape in found if kind == "all_reduce" and shape)
    wanted = sorted("x".join(map(str, p.shape)) for p in net.parameters())
    assert sums == wanted
    others = [shape for kind, shape in found if kind != "all_reduce"]
    scores = {f"{8 // a}x{-(-sizes[2] // b)}" for a, b in ((1, 2), (2, 1))} | {"8x1"}
    assert set(others) <= (scores if labels == flow.sbp.broadcast else set()), found


def sums_and_others(text: str) -> list[tuple[str, str]]:
    """The kind of collective, and the shape, of every tensor in a collective of a rank's program."""
    module = read_module(text, create_context(REGISTRY))
    tensors = [(op.name, v) for op in collectives_of(module, REGISTRY) for v in op.operands]
    return [(n.removeprefix("oneflow.ccl_"), "x".join(map(str, desc_of(v).shape or ()))) for n, v in tensors]


def step_of(count: int) -> Any:
    """A step of training `count` layers of 64 by 64, data-parallel on two ranks, after its first run."""
    pair = flow.placement("cpu", [0, 1])
    net = flow.nn.Sequential(*(flow.nn.Linear(64, 64) for _ in range(count)))
    optimizer = flow.optim.SGD(net.parameters(), lr=0.1)
    model = flow.nn.parallel.DistributedDataParallel(net, pair)

    @flow.compile
    def step(x: Any) -> Any:
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step(np.ones((8, 64), np.float32))
    return step


def test_all_gradients_are_one_collective_in_their_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are summed where they lie: an operand of the call and its result are one place of the plan."""
    module = read_module(step_of(3).ir("physical"), create_context(REGISTRY))
    (sums,) = collectives_of(module, REGISTRY)
    assert sums.name == "oneflow.ccl_all_reduce" and len(sums.operands) == 7
    # On a device, that of small programs lies apart.
    monkeypatch.setattr(plan, "APART", 0)
    found = read_program(program_source(module, "step", REGISTRY).lower("triton")).plan
    given, made = re.search(r"run\.host\(0, \[(.*)\], \[(.*)\]\)", found).groups()
    gradients = [g for g in re.findall(r"\(\w+, \d+\)", given) if not g.endswith(" 4)")]
    assert len(set(gradients)) == 6 and set(gradients) <= set(re.findall(r"\(\w+, \d+\)", made))
