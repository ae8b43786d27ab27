"""L-BFGS on Rosenbrock's function and on a quadratic one."""

import numpy as np
import pytest

import oneflow as flow


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def minimized(function, start, calls=1, **options):
    x = flow.tensor(start, dtype=flow.float64, requires_grad=True)
    optimizer, seen = flow.optim.LBFGS([x], **options), []

    def closure():
        optimizer.zero_grad()
        loss = function(x)
        loss.backward()
        seen.append(loss.item())
        return loss

    first = [optimizer.step(closure).item() for _ in range(calls)]
    return x.detach().numpy(), first, seen


def test_a_line_search_finds_the_minimum():
    x, _, seen = minimized(rosenbrock, [-1.5, 2.0], 3, max_iter=40, max_eval=100, line_search_fn="strong_wolfe")
    # The points of PyTorch 2.13.
    np.testing.assert_allclose(x, [0.99999799, 0.99999734], atol=1e-8)
    np.testing.assert_allclose(seen[:4], [12.5, 288.82414277, 5.87580997, 5.8635736], rtol=1e-8)
    assert len(seen) == 53


def test_a_loss_that_is_not_a_number_is_no_decrease():
    # x - log(x) is NaN below 0, where long steps lead, and least at 1.
    x, _, seen = minimized(lambda x: (x + 60 * (x - 1) ** 2 - flow.log(x)).sum(), [0.5], lr=8.0, max_iter=30,
                           max_eval=300, line_search_fn="strong_wolfe")  # fmt: skip
    assert np.isnan(seen).any()
    np.testing.assert_allclose(x, [1], atol=1e-4)


def test_steps_without_a_line_search():
    scales = flow.tensor([1.0, 4.0], dtype=flow.float64)
    x, first, _ = minimized(lambda x: (scales * (x - 1) ** 2).sum(), [3.0, -1.0], 2, lr=1.0, max_iter=20)
    np.testing.assert_allclose(x, [1, 1], atol=1e-6)
    assert first[0] == 20 and first[1] < 1e-10


def test_a_group_scales_the_rate():
    x = flow.tensor([1.0], dtype=flow.float64, requires_grad=True)
    optimizer = flow.optim.LBFGS([{"params": [x], "lr_scale": 0.5}], lr=0.25, max_iter=1, max_eval=2)
    optimizer.step(lambda: x.sum().backward() or x.sum())
    assert x.item() == 1 - 0.125


def test_evaluations_are_limited():
    _, _, seen = minimized(rosenbrock, [-1.5, 2.0], max_iter=10, max_eval=4)
    np.testing.assert_allclose(seen, [12.5, 288.82414277, 13.92646425, 29.51624917], rtol=1e-8)


def test_refused_lbfgs_arguments():
    x = flow.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="strong_wolfe"):
        flow.optim.LBFGS([x], line_search_fn="other")
    with pytest.raises(ValueError, match="closure"):
        flow.optim.LBFGS([x]).step()
