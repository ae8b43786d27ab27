"""Compiled functions on several placements, simulated and on real processes, compute the results of one process."""

import re
from typing import Any

import job
import numpy as np
import pytest
import stage_cases

import oneflow as flow
from oneflow.dialect.sbp import B, S
from oneflow.passes.pipeline import PipelineFailure

FRONT, BACK = flow.placement("cpu", [0, 1]), flow.placement("cpu", [2])


@pytest.mark.parametrize("strategy", ["greedy", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_simulated_stages_give_the_results_of_one_process(seed: int, strategy: str) -> None:
    stage_cases.check_stages(seed, strategy)


def test_simulated_stages_train_like_one_process() -> None:
    stage_cases.check_training()


def test_processes_run_stages() -> None:
    assert job.run("stage_cases.py", 4).count("is done") == 4


def test_ranks_compute_their_stage_alone() -> None:
    x, w = np.ones((4, 3), np.float32), np.full((3, 5), 2.0, np.float32)
    step = flow.compile(lambda x, w: flow.tanh(x.to_global(FRONT, S(0)) @ w).to_global(BACK, B) * 3.0)
    np.testing.assert_allclose(step(x, w), np.tanh(x @ w) * 3.0, rtol=1e-6)
    last: Any = step._last
    ranks = last.executable
    programs = [ranks.ir("physical", rank) for rank in range(3)]
    found = [re.findall(r'"oneflow\.(\w+)"', text) for text in programs]
    assert found[0] == found[1] == ["narrow", "matmul", "tanh", "ccl_send_recv"]
    assert found[2] == ["ccl_send_recv", "scalar_mul"]


def test_results_are_on_the_ranks_that_compute_them() -> None:
    x = flow.tensor(np.arange(8.0).reshape(4, 2)).to_global(FRONT, S(0))
    front, back, number = flow.compile(lambda x: (x * 2.0, x.to_global(BACK, B) + 1.0, x.sum()))(x)
    assert (front.placement, back.placement) == (FRONT, BACK)
    np.testing.assert_array_equal(front.numpy(), x.numpy() * 2)
    np.testing.assert_array_equal(back.numpy(), x.numpy() + 1)
    assert number.item() == 28.0 and number.placement.members == (0, 1, 2)


def test_segments_are_computed_again_across_placements() -> None:
    x, w = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0, 1, 9).reshape(3, 3)

    def loss(x, w, move):
        stage = lambda h: flow.tanh(move(h, BACK) @ w)  # noqa: E731
        return move(flow.checkpoint(stage, move(x, FRONT) @ w), FRONT).square().sum()

    alone = flow.compile(flow.grad(lambda x, w: loss(x, w, lambda h, at: h), (0, 1)))(x, w)
    made = flow.compile(flow.grad(lambda x, w: loss(x, w, lambda h, at: h.to_global(at, B)), (0, 1)))(x, w)
    for got, wanted in zip(made, alone, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_operands_on_two_placements_are_refused() -> None:
    x = flow.tensor([1.0, 2.0])
    one, other = (x.to_global(flow.placement("cpu", r), S(0)) for r in ([0, 1], [1, 0]))
    message = (
        r"(?s)test_stages_of_ranks.py:\d+.*expected operands on one placement, got p0 \(ranks \[0, 1\]\) and p1 "
        r"\(ranks \[1, 0\]\); move one with x.to_global"
    )
    with pytest.raises(PipelineFailure, match=message):
        flow.compile(lambda a, b: a + b)(one, other)


def test_placements_of_one_function_have_one_type() -> None:
    x = flow.tensor([1.0, 2.0]).to_global(FRONT, S(0))
    with pytest.raises(flow.TraceError, match="expected placements of one type in a function"):
        flow.compile(lambda a: a.to_global(flow.placement("cuda", [0]), B))(x)


def test_layouts_in_traces_need_an_sbp() -> None:
    with pytest.raises(flow.TraceError, match=r"to_global: expected flow.sbp.split\(axis\).*got 'row'"):
        flow.compile(lambda a: a.to_global(FRONT, "row"))(np.ones(2))
