"""Pruning: masks of elements and slices, again and again, together, and made permanent."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.nn.utils import prune

ROWS = np.array([[1, 2, 3, 4], [-5, -3, -2, -1]], np.float32)


def layer():
    module = flow.nn.Linear(4, 2, bias=False)
    module.weight = flow.nn.Parameter(flow.tensor(ROWS))
    return module


def test_repeated_pruning_chooses_among_remaining_elements():
    module = prune.l1_unstructured(layer(), "weight", 2)
    np.testing.assert_array_equal(module.weight.numpy(), ROWS * [[0, 1, 1, 1], [1, 1, 1, 0]])
    prune.l1_unstructured(module, "weight", amount=1 / 3)  # of the six that are left
    np.testing.assert_array_equal(module.weight_mask.numpy(), [[0, 0, 1, 1], [1, 1, 0, 0]])
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    np.testing.assert_array_equal(module.weight_mask.numpy(), [[0, 0, 0, 0], [1, 1, 0, 0]])


def test_gradients_flow_to_remaining_elements_and_optimizers_update_the_original():
    module = prune.custom_from_mask(layer(), "weight", flow.tensor([[1, 0, 1, 0], [0, 1, 0, 1]]))
    assert [name for name, _ in module.named_parameters()] == ["weight_orig"]
    module(flow.ones(1, 4)).sum().backward()
    np.testing.assert_array_equal(module.weight_orig.grad.numpy(), [[1, 0, 1, 0], [0, 1, 0, 1]])
    module.weight_orig.data.add_(1)
    np.testing.assert_array_equal(module(flow.ones(1, 4)).numpy(), [[6, -2]])


def test_removed_pruning_restores_the_parameter():
    module = layer()
    parameter = module.weight
    assert not prune.is_pruned(module)
    prune.random_unstructured(module, "weight", 0.5)
    assert prune.is_pruned(module) and set(module.state_dict()) == {"weight_orig", "weight_mask"}
    pruned = module.weight.numpy().copy()
    assert (pruned == 0).sum() == 4
    prune.remove(module, "weight")
    assert module.weight is parameter and set(module.state_dict()) == {"weight"}
    np.testing.assert_array_equal(parameter.numpy(), pruned)
    with pytest.raises(ValueError, match="expected a pruned parameter 'weight' of Linear"):
        prune.remove(module, "weight")


def test_importances_decide_and_slices_along_a_dimension():
    importances = flow.tensor([[4.0, 2, 1, 3], [-3, -1, -2, -4]])
    module = prune.l1_unstructured(layer(), "weight", 2, importance_scores=importances)
    np.testing.assert_array_equal(module.weight_mask.numpy(), [[1, 1, 0, 1], [1, 0, 1, 1]])
    module = prune.random_structured(layer(), "weight", 0.5, dim=1)
    assert sorted(module.weight_mask.sum(0).tolist()) == [0, 0, 2, 2]
    with pytest.raises(ValueError, match="expected importance_scores of the shape"):
        prune.l1_unstructured(layer(), "weight", 2, importance_scores=flow.ones(3))


def test_parameters_are_pruned_together():
    modules = layer(), flow.nn.Linear(3, 1)
    modules[1].weight = flow.nn.Parameter(flow.tensor([[0, 0.1, -2]]))
    prune.global_unstructured([(m, "weight") for m in modules], prune.L1Unstructured, amount=4)
    np.testing.assert_array_equal(modules[0].weight.numpy(), ROWS * [[0, 1, 1, 1], [1, 1, 1, 0]])
    np.testing.assert_array_equal(modules[1].weight.numpy(), np.array([[0, 0, -2]], np.float32))


@pytest.mark.parametrize("amount, error", [(1.5, ValueError), (-1, ValueError), ("all", TypeError), (9, ValueError)])
def test_refused_amounts_leave_the_module_unchanged(amount, error):
    module = layer()
    with pytest.raises(error, match="expected"):
        prune.l1_unstructured(module, "weight", amount)
    assert set(module.state_dict()) == {"weight"}
