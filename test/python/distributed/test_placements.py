"""Tensors between placements, simulated and on real processes."""

from typing import Any

import job
import numpy as np
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
        ([[0], [1, 2]], P, r"expected ranks such as .*, each once, got \[\[0\], \[1, 2\]\]"),
        ([0, 1], S(2), r"expected split axes below 2, the rank of the tensor, got S\(2\) for"),
        ([0, 1], (P, P), r"expected one SBP for each of the 1 mesh axes, got \[P, P\] for"),
        (
            [0, 1],
            "split",
            r"expected flow.sbp.split\(axis\), flow.sbp.broadcast or flow.sbp.partial_sum, got 'split'",
        ),
    ],
)
def test_errors_name_layouts_that_do_not_fit(ranks: list[int], sbp: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flow.tensor([[1.0]]).to_global(flow.placement("cpu", ranks), sbp)


@pytest.mark.parametrize("axis", ["rows", 1.5, None])
def test_axes_are_integers(axis: object) -> None:
    with pytest.raises(ValueError, match=rf"expected flow.sbp.split\(axis\) with an integer, got {axis!r}"):
        flow.sbp.split(axis)  # type: ignore[arg-type]
    assert flow.sbp.split(np.int64(1)) == S(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"placement": "cpu"},
            r'expected placement=flow.placement\("cpu", ranks=\[0, 1\]\) or the like, got \'cpu\'',
        ),
        ({"strategy": "best"}, "expected the strategy 'greedy' or 'auto', got 'best'"),
    ],
)
def test_compile_refuses_other_placements_and_strategies(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flow.compile(lambda x: x, **arguments)


def test_simulated_stages_of_one_function_in_eager_mode() -> None:
    placement_cases.check_eager_pipeline()


def test_gradients_of_local_tensors_are_local() -> None:
    placement_cases.check_gradient_of_a_tensor_of_the_process()


def test_shards_have_gradients() -> None:
    placement_cases.check_gradients_of_shards()


def test_gradients_of_shards_have_gradients() -> None:
    x = flow.tensor([1.0, 2.0, 3.0]).to_global(flow.placement("cpu", [0, 1]), S(0)).requires_grad_()
    (slope,) = flow.autograd.grad((x * x * x).to_local().sum(), x, create_graph=True)
    (curve,) = flow.autograd.grad(slope.to_local().sum(), x)
    np.testing.assert_allclose(curve.numpy(), [6.0, 12.0, 0.0])


def test_gradients_have_the_requested_layouts() -> None:
    placement_cases.check_layouts_of_gradients()


def test_compiled_functions_have_no_shards() -> None:
    with pytest.raises(flow.TraceError, match="to_local: expected a tensor outside of compiled functions"):
        flow.compile(lambda x: x.to_local(), placement=flow.placement("cpu", [0, 1]))(np.ones(2))


@pytest.mark.parametrize(
    ("args", "options", "ranks"),
    [
        (("cpu", {0: [0, 1]}), {}, [0, 1]),
        (("cpu", {0: range(4)}, (2, 2)), {}, [[0, 1], [2, 3]]),
        ((), {"device_type": "cpu", "device_ids": {0: [2, 0]}, "hierarchy": (1, 2)}, [[2, 0]]),
        ((), {"device_type": "cpu", "device_ids": {0: 3}}, [3]),
        ((), {"type": "cpu", "device_ids": {0: [1]}, "hierarchy": ()}, [1]),
    ],
)
def test_the_older_form_of_placements(args: Any, options: Any, ranks: Any) -> None:
    with pytest.warns(DeprecationWarning, match=r"write flow.placement\(type, ranks\)") as caught:
        placement = flow.placement(*args, **options)
    assert caught[0].filename == __file__
    assert placement == flow.placement("cpu", ranks)
    with pytest.warns(DeprecationWarning, match=r"write flow.placement.type"):
        assert placement.device_type == "cpu"
    with pytest.warns(DeprecationWarning, match=r"write flow.placement.ranks.shape"):
        assert placement.hierarchy == np.shape(ranks)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device_type": "cpu"}, r"expected the devices of each machine, such as \{0: \[0, 1\]\}, got None"),
        ({"device_type": "cpu", "device_ids": [0, 1]}, r"expected the devices of each machine, .* got \[0, 1\]"),
        ({"device_type": "cpu", "device_ids": {0: 0.5}}, r"expected the devices of each machine"),
        ({"device_type": "cpu", "device_ids": {"0": [0]}}, r"expected the devices of each machine"),
        ({"device_type": "cpu", "device_ids": {0: [0, 1]}, "hierarchy": (3,)}, r"hierarchy of 2 ranks, got \(3,\)"),
        ({"device_type": "cpu", "type": "cpu", "device_ids": {0: 0}}, r"expected one value of device_type"),
        ({"device_type": "npu", "device_ids": {0: 0}}, r"expected the placement type .* got 'npu'"),
        ({"type": "cpu"}, r"expected ranks such as .* got None"),
        ({"device_type": "cpu", "machines": {0: 0}}, "unexpected keyword argument 'machines'"),
    ],
)
def test_refused_placements(options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        flow.placement(**options)


def test_operators_take_tensors_on_one_placement() -> None:
    x = flow.tensor([1.0, 2.0])
    pair, other = (x.to_global(flow.placement("cpu", r), S(0)) for r in ([0, 1], [1, 0]))
    with pytest.raises(RuntimeError, match=r"oneflow\.broadcast_add: expected all tensors on one placement, got"):
        pair + other


FACTORIES: dict[str, Any] = {
    "tensor": lambda **at: flow.tensor([[1.0], [3.0], [5.0]], **at), "ones": lambda **at: flow.ones(3, 2, **at),
    "randn": lambda **at: flow.randn(3, 2, **at), "arange": lambda **at: flow.arange(3, **at),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_tensors_are_made_on_ranks(name: str) -> None:
    placement = flow.placement("cpu", [0, 1])
    flow.manual_seed(3)
    wanted = FACTORIES[name]().numpy()
    flow.manual_seed(3)
    made = FACTORIES[name](placement=placement, sbp=S(0))
    assert made.placement == placement and made.sbp == (S(0),)
    np.testing.assert_array_equal(made.numpy(), wanted)
    np.testing.assert_array_equal(made.to_local().numpy(), wanted[:2])


def test_tensors_are_made_on_ranks_in_compiled_functions() -> None:
    at: dict[str, Any] = {"placement": flow.placement("cpu", [0, 1]), "sbp": S(0)}
    made = flow.compile(lambda x: x + flow.ones(3, 2, **at))(np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(made, np.full((3, 2), 2.0))


def test_global_tensors_with_numbers_and_replicated_tensors() -> None:
    x = np.arange(6.0).reshape(3, 2)
    global_x = flow.tensor(x).to_global(flow.placement("cpu", [0, 1]), S(0))
    made = (global_x * 2.0 + flow.tensor(x[0])).to_global(sbp=P)
    assert made.sbp == (P,)
    np.testing.assert_array_equal(made.numpy(), x * 2 + x[0])
    global_x += 1.0
    assert global_x.sbp == (S(0),)
    np.testing.assert_array_equal(global_x[1:, 0].numpy(), x[1:, 0] + 1)


def test_global_tensors_are_printed_as_oneflow_prints_them() -> None:
    pair = flow.placement("cpu", [0, 1])
    x = flow.tensor([0.0, 1.0]).to_global(pair, flow.sbp.split(0))
    suffixes = 'placement=oneflow.placement(type="cpu", ranks=[0, 1]), sbp=({},), dtype=oneflow.float32)'
    split = suffixes.format("oneflow.sbp.split(dim=0)")
    assert " ".join(str(x).split()) == f"tensor([0., 1.], {split}"
    x.handle.handle.shards.pop(1)  # as in a process of one rank
    assert " ".join(str(x).split()) == f"tensor([...], {split}"
    whole = flow.tensor([0.0, 1.0]).to_global(pair, flow.sbp.broadcast())
    whole.handle.handle.shards.pop(0)
    assert " ".join(str(whole).split()) == f"tensor([0., 1.], {suffixes.format('oneflow.sbp.broadcast')}"
    assert repr(flow.sbp.partial_sum) == "oneflow.sbp.partial_sum"


def test_results_whose_sizes_depend_on_data_are_whole_on_the_ranks() -> None:
    x = flow.tensor([3.0, 0.0, 3.0]).to_global(flow.placement("cpu", [0, 1]), S(0))
    distinct, inverse, counts = flow.unique(x, return_inverse=True, return_counts=True)
    for got, want in ((distinct, [0, 3]), (inverse, [1, 0, 1]), (counts, [1, 2]), (flow.nonzero(x), [[0], [2]])):
        assert got.placement == x.placement and got.sbp == (flow.sbp.broadcast,)
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(flow.masked_select(x, x > 0).numpy(), [3, 3])
    np.testing.assert_array_equal(distinct[inverse].numpy(), x.numpy())


def test_updated_tensors_keep_their_placement() -> None:
    pair = flow.placement("cpu", [0, 1])
    w = flow.tensor(np.arange(6.0)).to_global(pair, S(0))
    array, shards = w.handle.handle, dict(w.handle.handle.shards)

    @flow.compile
    def step(x: Any) -> Any:
        w.copy_(w + x)
        return w * 2.0

    for turn in range(1, 4):
        twice = step(np.ones(6))
        np.testing.assert_array_equal(twice, (np.arange(6.0) + turn) * 2.0)
        np.testing.assert_array_equal(w.numpy(), np.arange(6.0) + turn)
    assert w.handle.handle is array and all(array.shards[p] is shards[p] for p in (0, 1))
