"""Graphs with ZeRO: values of data parallelism, with parameters, gradients and states split over the ranks."""

import functools
import re
from typing import Any

import job
import numpy as np
import pytest
from zero_cases import Training

import oneflow as flow
from oneflow import nn
from oneflow.frontend.nn.zero import split_layout

B, S = flow.sbp.broadcast, flow.sbp.split
WHOLE, SHARDS = [(8, 6), (4, 8)], [(4, 6), (2, 8)]


def collectives(graph: nn.Graph) -> list[str]:
    """The collectives of tensors in the program of a rank, in order."""
    return re.findall(r"oneflow\.ccl_(\w+)\"\(.*-> (?!\(?tensor<f64>)", graph.ir("physical"))


@functools.cache
def data_parallel(parts: int = 1) -> tuple[Training, list[Any]]:
    """Training without ZeRO, and its losses in four steps."""
    training = Training([0, 1], 0, parts)
    return training, training.losses(4)


@pytest.mark.parametrize(("stage", "parts", "gathers"), [(1, 1, 1), (2, 2, 1), (3, 1, 2), (3, 2, 5)])
def test_each_stage_trains_like_data_parallelism(stage: int, parts: int, gathers: int) -> None:
    (plain, losses), zero = data_parallel(parts), Training([0, 1], stage, parts)
    np.testing.assert_allclose(zero.losses(4), losses, rtol=1e-12)
    assert plain.local_shapes() == 2 * WHOLE and zero.local_shapes() == 2 * SHARDS
    for one, other in zip(zero.net.parameters(), plain.net.parameters(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    assert "reduce_scatter" in collectives(zero) and "reduce_scatter" not in collectives(plain)
    # Stage 3 gathers the second parameter again for the backward pass; the first has no gradient by its operand.
    assert collectives(zero).count("all_gather") == gathers


@pytest.mark.parametrize(("stage", "kept"), [(1, WHOLE), (2, SHARDS)])
def test_accumulated_gradients_are_split_from_stage_2_on(stage: int, kept: list[tuple[int, ...]]) -> None:
    """A scaler has the gradients checked before the steps of the optimizers, which are another program."""
    zero = Training([0, 1], stage, scaler=flow.amp.GradScaler(init_scale=8.0))
    np.testing.assert_allclose(zero.losses(2), data_parallel()[1][:2], rtol=1e-12)
    found = re.findall(r"tensor<(\d+)x(\d+)xf64> \{[^}]*oneflow.name = \"grad.\d\"", zero.ir("physical"))
    assert [(int(rows), int(columns)) for rows, columns in found] == kept


def test_existing_optimizer_states_are_split() -> None:
    zero = Training([0, 1], 0)
    before = zero.losses(2)
    zero.config.set_zero_redundancy_optimizer_mode("distributed_split")
    zero.config.enable_zero(shard_min_size=16)  # a shard of the second parameter has 16 elements
    np.testing.assert_allclose(before + zero.losses(2), data_parallel()[1], rtol=1e-12)
    assert zero.local_shapes() == 2 * SHARDS
    small = Training([0, 1], 2, shard_min_size=17)
    small.losses(1)
    assert small.local_shapes() == 2 * [(4, 6), (4, 8)]


def test_other_graphs_read_whole_parameters() -> None:
    """A graph without an optimizer computes with the layout before the split, unless the split is not restored."""
    zero = Training([0, 1], 1)
    zero.losses(1)

    class Evaluation(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = zero.model

        def build(self, x: Any) -> Any:
            return self.model(x)

    evaluation, x = Evaluation(), np.ones((4, 6))
    weights = [p.numpy() for p in zero.net.parameters()]
    np.testing.assert_allclose(evaluation(flow.tensor(x)).numpy(), np.tanh(x @ weights[0].T) @ weights[1].T)
    assert collectives(evaluation) == ["all_gather"]
    free = Training([0, 1], 1, shard_restore_level=0)
    np.testing.assert_allclose(free.losses(1), data_parallel()[1][:1], rtol=1e-12)


@pytest.mark.parametrize(
    ("layout", "mesh", "wanted"),
    [
        ((B,), (2,), (S(0),)), ((B, B), (2, 2), (B, S(0))), ((B, S(1)), (2, 2), (S(1), S(1))),
        ((S(0), B), (2, 2), (S(0), S(0))), ((S(0),), (2,), None), ((B,), (1,), None), ((B, B), (2, 1), (S(0), B)),
    ],
)  # fmt: skip
def test_one_mesh_axis_of_a_broadcast_tensor_is_split(layout: Any, mesh: Any, wanted: Any) -> None:
    assert split_layout(layout, mesh) == wanted


def test_zero_of_split_layers_on_a_mesh_of_two_axes() -> None:
    grid = flow.placement("cpu", [[0, 1], [2, 3]])
    weight, x = np.arange(32.0).reshape(8, 4) / 32, np.ones((4, 4))

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 8, bias=False).double()
            self.layer.load_state_dict({"weight": weight})
            self.layer.to_global(grid, (B, S(0)))
            self.add_optimizer(flow.optim.SGD(self.layer.parameters(), lr=0.5))
            self.config.enable_zero(stage=3, shard_min_size=1)

        def build(self, x: Any) -> Any:
            loss = self.layer(x.to_global(grid, (S(0), B))).square().sum()
            loss.backward()
            return loss

    step = Step()
    step(flow.tensor(x))
    assert step.layer.weight.sbp == (S(0), S(0)) and step.layer.weight.to_local().shape == (2, 4)
    np.testing.assert_allclose(step.layer.weight.numpy(), weight - 0.5 * 2 * (x @ weight.T).T @ x)


def test_arguments_of_checkpointed_functions_are_gathered_again() -> None:
    weight, x = np.arange(8.0).reshape(4, 2) / 8, np.ones((4, 4))
    both = flow.placement("cpu", [0, 1])

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 4, bias=False).double()
            self.layer.load_state_dict({"weight": weight})
            self.layer.to_global(both, B)
            self.add_optimizer(flow.optim.SGD(self.layer.parameters(), lr=0.5))
            self.config.enable_zero(stage=3, shard_min_size=1)

        def build(self, x: Any) -> Any:
            loss = flow.checkpoint(lambda a, w: (a @ w).square().sum())(x.to_global(both, S(0)), self.layer.weight)
            loss.backward()
            return loss

    step = Step()
    step(flow.tensor(x))
    np.testing.assert_allclose(step.layer.weight.numpy(), weight - 0.5 * 2 * x.T @ (x @ weight))
    assert collectives(step).count("all_gather") == 2


def test_options_of_zero_are_checked() -> None:
    config = nn.Graph().config
    cases: list[dict[str, Any]] = [{"stage": 4}, {"shard_min_size": 0}, {"shard_restore_level": 3}]
    for wrong in cases:
        with pytest.raises(ValueError, match=f"expected {next(iter(wrong))}"):
            config.enable_zero(**wrong)
    with pytest.raises(ValueError, match="got 'other'"):
        config.set_zero_redundancy_optimizer_mode("other")
    config.enable_zero()
    config.set_zero_redundancy_optimizer_mode("none")
    assert config.zero is None


def test_processes_train_with_zero() -> None:
    assert job.run("zero_cases.py", 2).count("is done") == 2
