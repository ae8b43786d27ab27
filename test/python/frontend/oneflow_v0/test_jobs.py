"""Job functions: the device of a job, and train jobs against the same steps in NumPy."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
import oneflow.typing as tp
from oneflow.frontend import cuda
from oneflow.frontend.oneflow_v0 import jobs, variables

X = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 1.0]], np.float32)
T = np.array([1.0, -1.0, 2.0], np.float32)
needs_no_gpu = pytest.mark.skipif(cuda.is_available(), reason="says what happens where there is no GPU")


@pytest.fixture(autouse=True)
def fresh_variables():
    variables._variables.clear()


def loss_of(x, t, initializer=None):
    w = flow.get_variable("w", shape=(2,), initializer=initializer or flow.constant_initializer(0.5))
    return ((x * w).sum(dim=1) - t) ** 2


def test_a_predict_job_gives_arrays_in_its_structure():
    @flow.global_function()
    def job(x: tp.Numpy.Placeholder((3, 2), dtype=flow.float32)) -> tuple[tp.Numpy, tp.Numpy]:
        with flow.scope.placement("cpu", "0:0"):
            return flow.relu(x), -x

    for scale in (1, 2):
        first, second = job(X * scale)
        assert type(first) is type(second) is np.ndarray
        np.testing.assert_array_equal(first, np.maximum(X * scale, 0))
        np.testing.assert_array_equal(second, -X * scale)
    with pytest.raises(flow.CallError, match=r"expected x of type tensor<3x2xf32>, got tensor<3xf32>"):
        job(T)


def test_a_train_job_follows_its_schedule():
    seen, grads = list[Any](), list[Any]()

    @flow.global_function(type="train")
    def job(x: tp.Numpy.Placeholder((3, 2)), t: tp.Numpy.Placeholder((3,))) -> tp.Numpy:
        loss = loss_of(x, t)
        flow.watch(loss, seen.append)
        flow.watch_diff(loss, grads.append)
        flow.optimizer.SGD(flow.optimizer.PiecewiseConstantScheduler([2], [0.1, 0.01]), momentum=0.0).minimize(loss)
        return loss

    w = np.full(2, 0.5)
    for run in range(4):
        error = X @ w - T
        np.testing.assert_allclose(job(X, T), error**2, rtol=1e-5)
        np.testing.assert_array_equal(grads[-1], np.full(3, 1 / 3, np.float32))
        w -= (0.1 if run < 2 else 0.01) * X.T @ error * 2 / 3
    np.testing.assert_allclose(variables._variables["w"].detach().numpy(), w, rtol=1e-5)
    assert len(seen) == len(grads) == 4
    assert sum(map(len, job._specializations.values())) == 1


def test_a_variable_is_watched():
    grads: list[Any] = []

    @flow.global_function(type="train")
    def job(x: tp.Numpy.Placeholder((2,))) -> tp.Numpy:
        scale = flow.get_variable("watched", shape=(2,), initializer=flow.constant_initializer(2.0))
        flow.watch_diff(scale, grads.append)
        loss = x * scale * scale
        flow.optimizer.SGD(flow.optimizer.PiecewiseConstantScheduler([], [0.5]), momentum=0.0).minimize(loss)
        return loss

    x, scale = np.array([3, -4], np.float32), np.full(2, 2.0)
    for _ in range(2):
        np.testing.assert_allclose(job(x), x * scale**2, rtol=1e-6)
        np.testing.assert_allclose(grads[-1], x * scale, rtol=1e-6)
        scale -= 0.5 * x * scale
    np.testing.assert_allclose(variables._variables["watched"].detach().numpy(), scale, rtol=1e-6)


def test_jobs_share_variables():
    @flow.global_function(type="train")
    def train(x: tp.Numpy.Placeholder((3, 2)), t: tp.Numpy.Placeholder((3,))) -> tp.Numpy:
        loss = loss_of(x, t, flow.random_normal_initializer(stddev=0.1))
        flow.optimizer.Adam(0.1).minimize(loss)
        return loss

    @flow.global_function()
    def predict(x: tp.Numpy.Placeholder((3, 2))) -> tp.Numpy:
        return (x * flow.get_variable("w", shape=(2,))).sum(dim=1)

    losses = [train(X, T).mean() for _ in range(60)]
    least = np.linalg.lstsq(X, T, rcond=None)[1][0] / len(T)
    np.testing.assert_allclose(losses[-1], least, rtol=1e-2)
    assert losses[0] > 1.2 * least
    w: Any = variables._variables["w"].detach().numpy()
    np.testing.assert_allclose(predict(X), X @ w, rtol=1e-5)
    train(X, T)
    np.testing.assert_allclose(predict(X), X @ variables._variables["w"].detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "make, rates",
    [
        (lambda: flow.optimizer.PiecewiseConstantScheduler([1, 3], [3.0, 2.0, 1.0]), [3, 2, 2, 1, 1]),
        (lambda: flow.optimizer.CosineScheduler(2.0, 4, 0.5), [2, 1.8535534, 1.5, 1.1464466, 1, 1]),
    ],
)
def test_schedules(make, rates):
    np.testing.assert_allclose([make()(run) for run in range(len(rates))], rates, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("tpu", "0:0"), 'expected the device "cpu" or "gpu", got \'tpu\''),
        (("cpu", "0:0-3"), 'expected one device such as "0:0"'),
        (("cpu", ["0:0", "0:1"]), "programs on several are compiled for a flow.placement"),
        (("cpu", "1:0"), 'expected one device such as "0:0"'),
        pytest.param(("gpu", "0:0"), '.none.; use flow.scope.placement."cpu", "0:0"', marks=needs_no_gpu),
    ],
)
def test_placements_that_are_refused(arguments, message):
    with pytest.raises(flow.CallError, match=message):
        flow.scope.placement(*arguments)


def test_devices_of_jobs(monkeypatch):
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "device_count", lambda: 2)
    assert flow.scope.placement("gpu", "0:1").device == "cuda:1"
    assert jobs._default_device() == "cuda"
    flow.config.gpu_device_num(0)
    assert jobs._default_device() == "cpu"
    flow.config.gpu_device_num(1)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        flow.config.gpu_device_num(-1)


def job_of(body, type="predict"):
    @flow.global_function(type=type)
    def job(x: tp.Numpy.Placeholder((2,))) -> tp.Numpy:
        return body(x)

    return job


@pytest.mark.parametrize(
    "body, kind, message",
    [
        (lambda x: x, "train", "expected a train job to call minimize"),
        (lambda x: flow.optimizer.SGD(0.1).minimize(x), "predict", 'for jobs of type="train"'),
        (lambda x: flow.optimizer.SGD(0.1).minimize(x), "train", "expected the job to have variables"),
        (lambda x: flow.get_variable("new"), "predict", "expected a shape for 'new'"),
        (
            lambda x: flow.get_variable("w", (2,)) + flow.get_variable("w", (3,)),
            "predict",
            "expected tensor<2xf32> for 'w'",
        ),
        (
            lambda x: flow.get_variable("w", (2,), regularizer=1),  # type: ignore[arg-type]
            "predict",
            "pass weight_decay to the optimizer",
        ),
    ],
)
def test_jobs_that_are_refused(body, kind, message):
    with pytest.raises(flow.CallError, match=message):
        job_of(body, kind)(np.zeros(2, np.float32))


def test_calls_outside_of_jobs_are_refused():
    with pytest.raises(flow.CallError, match="expected the type of a job, 'predict' or 'train', got 'test'"):
        flow.global_function(type="test")
    with pytest.raises(flow.CallError, match=r"expected x to be annotated with tp\.Numpy\.Placeholder"):
        flow.global_function()(lambda x: x)
    with pytest.raises(
        flow.CallError, match=r"expected flow\.get_variable in the function of a job, got a call outside"
    ):
        flow.get_variable("w", (2,))
    with pytest.raises(flow.CallError, match="expected 2 values for 1 boundaries, got 3"):
        flow.optimizer.PiecewiseConstantScheduler([1], [1.0, 2.0, 3.0])


def test_settings_of_a_job():
    settings = flow.FunctionConfig()
    settings.default_placement_scope(flow.scope.placement("cpu", "0:0"))
    settings.default_data_type(flow.float32)
    with pytest.raises(flow.CallError, match="expected the default data type float32"):
        settings.default_data_type(flow.float64)

    @flow.global_function(settings)
    def job(x: tp.Numpy.Placeholder((3,))) -> tp.Numpy:
        return x + 1.0

    np.testing.assert_array_equal(job(T), T + 1)
    assert job.device == "cpu"


def test_the_class_of_tensors_makes_them():
    for data in (X, X.astype(np.float64), X.tolist()):
        made = flow.Tensor(data)
        assert isinstance(made, flow.Tensor) and made.dtype == flow.float32
        np.testing.assert_array_equal(made.numpy(), X)
    assert flow.Tensor(2, 3).shape == (2, 3) and not isinstance(3, flow.Tensor)
    assert flow.Tensor.reshape(flow.Tensor(X), (6,)).shape == (6,)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"expected flow.Tensor\(data\) or flow.Tensor\(2, 3\)"):
        flow.Tensor([1.0], [2.0])


def test_a_gradient_is_watched_before_it_is_computed():
    @flow.global_function(type="train")
    def job(x: tp.Numpy.Placeholder((2,))) -> tp.Numpy:
        scale = flow.get_variable("late", shape=(2,))
        flow.optimizer.SGD(flow.optimizer.PiecewiseConstantScheduler([], [0.5]), momentum=0.0).minimize(x * scale)
        flow.watch_diff(scale, print)
        return x

    with pytest.raises(
        flow.TraceError, match=r"test_jobs\.py:\d+: flow\.watch_diff: expected it before minimize\(loss\)"
    ):
        job(np.ones(2, np.float32))
