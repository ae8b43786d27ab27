"""Training under each layout, simulated and on real processes, equals training in one process."""

import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import job
import numpy as np
import pytest
import training_cases

import oneflow as flow
from oneflow.dialect import oneflow as dialect
from oneflow.dialect.external import ExternalKernel
from oneflow.dialect.oneflow import create_context, desc_of
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.lowering.triton.launch.program import read_program
from oneflow.passes.sbp.collectives import collectives_of
from oneflow.passes.sbp.interconnects import ETHERNET, using_interconnect
from oneflow.runtime.cuda.script import External, Launch, record
from oneflow.runtime.program_source import ProgramSource


@pytest.mark.parametrize("name", training_cases.LAYOUTS)
def test_simulated_ranks_train_like_one_process(name: str) -> None:
    training_cases.check(name, [0, 1])


def test_the_thread_of_each_rank_adds_operators_to_a_context_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decomposition of a softmax has operators that the program has not."""
    added: dict[threading.Thread, set[int]] = {}
    plain = dialect.declare

    def declare(context: Any, records: Any) -> None:
        added.setdefault(threading.current_thread(), set()).add(hash(context))
        plain(context, records)

    monkeypatch.setattr(dialect, "declare", declare)
    pair = flow.placement("cpu", [0, 1])
    x = flow.ones(4, 3).to_global(pair, flow.sbp.split(0))
    y = flow.compile(lambda x: flow.softmax(x, 1) * 3)(x)
    np.testing.assert_allclose(y.to_global(pair, flow.sbp.broadcast).to_local().numpy(), np.ones((4, 3)), 1e-6)
    of_ranks = [c for thread, c in added.items() if thread is not threading.main_thread()]
    assert len(of_ranks) > 1
    assert not any(a & b for a, b in itertools.combinations(of_ranks, 2))


@pytest.mark.parametrize("count", [2, 4])
def test_processes_train_like_one_process(count: int) -> None:
    assert job.run("training_cases.py", count).count("is done") == count


@pytest.mark.parametrize("loss", ["cross_entropy", "mse_loss"])
@pytest.mark.parametrize("sizes", [(3, 4, 64), (64, 2, 3)], ids=str)
@pytest.mark.parametrize("labels", [flow.sbp.split(0), flow.sbp.broadcast], ids=str)
def test_only_data_parallel_gradients_cross_ranks(sizes: tuple[int, int, int], labels: Any, loss: str) -> None:
    """Every gradient is summed over ranks right after the gradient is computed; whole labels move only scores."""
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


def test_all_gradients_are_one_collective_in_their_own_memory(change_gpu: Callable[..., None]) -> None:
    """Gradients are summed in place: an operand of the call and the result share one buffer of the plan."""
    module = read_module(step_of(3).ir("physical"), create_context(REGISTRY))
    (sums,) = collectives_of(module, REGISTRY)
    assert sums.name == "oneflow.ccl_all_reduce" and len(sums.operands) == 7
    # On a device, buffers of small programs do not share memory.
    change_gpu(launches={"no_reuse_l2_share": 0})
    found = read_program(ProgramSource.of(module, "step", REGISTRY).lower("triton")).plan
    (given, made), *_ = re.findall(r"run\.host\(0, \[(.*)\], \[(.*)\]\)", found)
    gradients = [g for g in re.findall(r"\(\w+, \d+\)", given) if not g.endswith(" 4)")]
    assert len(set(gradients)) == 6 and set(gradients) <= set(re.findall(r"\(\w+, \d+\)", made))


def test_later_work_overlaps_the_first_gradients(change_gpu: Callable[..., None]) -> None:
    """Collectives wait for one another and for operands; the rest of the backward part waits for no collective."""
    with using_interconnect(replace(ETHERNET, joined_bytes=20000)):
        module = read_module(step_of(3).ir("physical"), create_context(REGISTRY))
    change_gpu(launches={"no_reuse_l2_share": 0, "max_fused_entry_calls": 0})
    found = read_program(ProgramSource.of(module, "step", REGISTRY).lower("triton"))
    kernels = {i: ExternalKernel(0, 0, str, None, True, recorded=True) for i in range(3)}
    script = record(found, [()] * 8, {}, kernels)
    before: list[set[int]] = []
    for after in script.dependencies:
        before.append(set(after).union(*(before[n] for n in after)))
    sums = [n for n, command in enumerate(script.commands) if isinstance(command, External)]
    assert len(sums) == 3 and all(one in before[other] for one, other in itertools.pairwise(sums))
    # The backward part of the other layers uses the kernels of the last layer.
    kernel = {n: re.sub(r"_x\d+$", "", c.kernel) for n, c in enumerate(script.commands) if isinstance(c, Launch)}
    known = {name for n, name in kernel.items() if n < sums[0]}
    back = [n for n, name in kernel.items() if sums[0] < n < sums[-1] and name in known]
    assert len(back) == 3 and not any(max(s for s in sums if s < n) in before[n] for n in back), found
