"""Graphs whose modules are stages of a pipeline."""

import copy
import re
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn
from oneflow.nn.graph import GraphModule

B, S = flow.sbp.broadcast, flow.sbp.split


class Pipeline(nn.Graph):
    """Two layers that train on a batch in four parts, on the placements `at`, or in one process."""

    def __init__(
        self, *at: Any, checkpoints: bool = False, zero: int = 0, norm: float = 2.0, scaler: Any = None
    ) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.up, self.down = nn.Linear(6, 8, bias=False).double(), nn.Linear(8, 4, bias=False).double()
        for index, layer in enumerate((self.up, self.down)):
            layer.load_state_dict({"weight": rng.standard_normal(layer.weight.shape)})
            if at:
                layer.to_global(at[index], B)
                layer.to(GraphModule).set_stage(index, at[index])
                layer.to(GraphModule).activation_checkpointing = checkpoints
        self.at = at
        weights = {
            "params": [self.up.weight, self.down.weight],
            "clip_grad_max_norm": 0.5,
            "clip_grad_norm_type": norm,
        }
        self.add_optimizer(flow.optim.SGD([weights], lr=0.1, momentum=0.9))
        if scaler is not None:
            self.set_grad_scaler(scaler)
        self.config.set_gradient_accumulation_steps(4)
        self.config.enable_zero(zero > 0, stage=max(zero, 1), shard_min_size=1)

    def build(self, x: Any, y: Any) -> Any:
        y = y.to_global(self.at[1], S(0)) if self.at else y
        loss = (self.down(flow.tanh(self.up(x))) - y).square().mean()
        loss.backward()
        return loss

    def losses(self) -> Any:
        """The losses of the parts in three steps."""
        rng = np.random.default_rng(5)
        batch = flow.tensor(rng.standard_normal((8, 6))), flow.tensor(rng.standard_normal((8, 4)))
        return [self(*batch).numpy() for _ in range(3)]


def placements(size: int) -> list[Any]:
    """Two placements of `size` ranks."""
    return [flow.placement("cpu", list(range(i * size, (i + 1) * size))) for i in range(2)]


@pytest.mark.parametrize(("size", "options"), [(1, {}), (2, {"checkpoints": True, "zero": 3})], ids=str)
def test_stages_train_like_one_process(size: int, options: dict[str, Any]) -> None:
    pipeline = Pipeline(*placements(size), **options)
    np.testing.assert_allclose(pipeline.losses(), Pipeline().losses(), rtol=1e-12)
    assert pipeline.up.weight.to_local().shape == ((8, 6) if "zero" not in options else (4, 6))


class Clipping(Pipeline):
    """Gradients that `build` clips after `backward` of each part."""

    def build(self, x: Any, y: Any) -> Any:
        loss = super().build(x, y)
        nn.utils.clip_grad_norm_([self.up.weight], 0.05)
        return loss


def test_build_reads_and_updates_gradients_after_backward() -> None:
    losses = Clipping(*placements(1)).losses()
    np.testing.assert_allclose(losses, Clipping().losses(), rtol=1e-12)
    assert not np.allclose(losses, Pipeline().losses())


def test_gradients_on_several_placements_are_clipped_and_unscaled() -> None:
    """The largest norm and the check for finite numbers are of the gradients of all stages."""
    clipped = Pipeline(*placements(1), norm=float("inf"), scaler=flow.amp.GradScaler(init_scale=8.0))
    np.testing.assert_allclose(clipped.losses(), Pipeline(norm=float("inf")).losses(), rtol=1e-12)


def test_stages_compute_at_the_same_time() -> None:
    """The first of two stages computes two parts before the gradient of the first part arrives."""
    pipeline = Pipeline(*placements(1))
    pipeline.losses()
    # The part of the batch and the weight give a result; the gradient by the result and the part give a gradient.
    products = re.findall(r'"oneflow.matmul"\(.*\) -> tensor<(\w+)xf64>', pipeline.ir("physical"))
    forward, backward = "2x8", "8x6"
    assert products == [forward, forward, backward, forward, backward, forward, backward, backward]


def test_arguments_of_a_stage_are_split_where_parameters_are_repeated() -> None:
    grid = flow.placement("cpu", [[0, 1], [2, 3]])
    layer = nn.Linear(4, 4, bias=False).to_global(grid, (B, S(0)))
    seen = []
    layer.register_forward_hook(lambda module, args, result: seen.append(result))
    options = layer.to(GraphModule)
    options.set_stage(1, grid)
    assert options.stage_id == 1 and options.stage_placement == grid and layer.to(GraphModule) is options
    x = flow.randn(6, 4)
    y = layer(x)
    assert y.sbp == (S(0), S(1)) and seen[0] is y
    np.testing.assert_allclose(y.numpy(), x.numpy() @ layer.weight.numpy().T, rtol=1e-5)
    stays = x.to_global(flow.placement("cpu", [[1, 0], [3, 2]]), (B, S(0)))
    assert layer(stays).placement == grid
    for wrong in (-1, True, "0"):
        with pytest.raises(ValueError, match="stage_id"):
            options.set_stage(wrong)
    with pytest.raises(ValueError, match="placement"):
        options.set_stage(0, "cpu")


def test_options_belong_to_the_copy_of_a_module() -> None:
    """A copy with checkpointing computes with its own parameters."""
    layer = nn.Linear(2, 1, bias=False)
    layer.to(GraphModule).activation_checkpointing = True
    other = copy.deepcopy(layer)
    with flow.no_grad():
        other.weight.zero_()
    assert other.to(GraphModule).activation_checkpointing
    assert other(flow.ones(1, 2)).item() == 0 != layer(flow.ones(1, 2)).item()


def test_a_module_with_options_gets_the_lists_of_the_caller() -> None:
    """The module appends to the caller's list, also as a stage whose tensors the program moves."""

    class Caching(nn.Module):
        def forward(self, x: Any, cache: list[Any]) -> Any:
            cache.append(x)
            return x * 2

    module, x, cache = Caching(), flow.ones(2), list[Any]()
    module.to(GraphModule).set_stage(0)
    assert module(x, cache).tolist() == [2, 2] and cache[0] is x
    module.to(GraphModule).activation_checkpointing = True
    module(x, cache)
    assert len(cache) == 2


def test_traced_tensors_know_placements_and_stated_layouts() -> None:
    """A tensor without a stated layout is whole on the placement that it moves to."""
    front, back = placements(2)

    @flow.compile
    def f(x: Any, y: Any) -> Any:
        assert x.is_global and x.placement == front and x.sbp == (S(0),) and not y.is_global and y.is_local
        hidden = flow.relu(x) + 1
        assert hidden.placement == front
        with pytest.raises(flow.OneFlowError, match=r"to_global\(sbp=..\) states it"):
            hidden.sbp  # noqa: B018
        same, whole = x.to_global(back), hidden.to_global(placement=back)
        assert same.sbp == (S(0),) and whole.sbp == (B,) and (whole * 2).placement == back
        return whole + same

    x = flow.ones(4, 2)
    result = f(x.to_global(front, S(0)), x)
    assert result.placement == back and result.numpy().tolist() == [[3, 3]] * 4
