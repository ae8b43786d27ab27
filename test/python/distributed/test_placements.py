"""Tensors between placements, simulated and on real processes."""

import job
import placement_cases
import pytest

import oneflow as flow
from oneflow.dialect.sbp import P, S


def test_simulated_ranks_send_tensors_to_other_placements() -> None:
    placement_cases.check_moves()


def test_simulated_stages_on_ranks_of_their_own() -> None:
    placement_cases.check_pipeline()


def test_processes_on_placements_of_their_own() -> None:
    assert job.run("placement_cases.py", 4).count("is done") == 4


@pytest.mark.parametrize(
    ("ranks", "sbp", "message"),
    [
        ([0, 0], P, r"expected ranks such as \[0, 1\] or \[\[0, 1\], \[2, 3\]\], each once, got \[0, 0\]"),
        ([0, 1], S(2), r"expected split axes below 2, the rank of the tensor, got S\(2\) for"),
        ([0, 1], (P, P), r"expected one SBP for each of the 1 mesh axes, got \[P, P\] for"),
        (
            [0, 1],
            "split",
            r"expected flow.sbp.split\(axis\), flow.sbp.broadcast or flow.sbp.partial_sum, got 'split'",
        ),
    ],
)
def test_layouts_that_do_not_fit_are_said(ranks: list[int], sbp: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flow.tensor([[1.0]]).to_global(flow.placement("cpu", ranks), sbp)


def test_operators_on_global_tensors_are_compiled() -> None:
    x = flow.tensor([1.0, 2.0]).to_global(flow.placement("cpu", [0, 1]), S(0))
    with pytest.raises(
        RuntimeError, match=r"oneflow\.\w+: .* lies on several ranks; operators on it run in functions"
    ):
        x + x


def test_a_function_has_one_placement() -> None:
    x = flow.tensor([1.0, 2.0])
    pair, other = (x.to_global(flow.placement("cpu", r), S(0)) for r in ([0, 1], [1, 0]))
    with pytest.raises(flow.TraceError, match="expected all tensors of the function on one placement"):
        flow.compile(lambda a, b: a + b)(pair, other)
