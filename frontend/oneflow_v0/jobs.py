"""Job functions of OneFlow's older API: `@flow.global_function`, `flow.scope.placement`, `flow.watch`.

    @flow.global_function(type="train")
    def job(x: tp.Numpy.Placeholder((5,), dtype=flow.float32)) -> tp.Numpy:
        with flow.scope.placement("cpu", "0:0"):
            loss = my_loss(x * flow.get_variable("scale", shape=(5,)))
        flow.optimizer.SGD(flow.optimizer.PiecewiseConstantScheduler([], [0.1]), momentum=0).minimize(loss)
        return loss

A job is a compiled function; its device is determined during tracing.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from oneflow.dialect.dtypes import DType, float32
from oneflow.frontend import cuda
from oneflow.frontend.compile.compiled import CompiledFunction
from oneflow.frontend.compile.specialization import Specialization
from oneflow.frontend.core.devices import Device, device
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import CallError, fail
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import Leaf
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.tracing.traced import Traced

TYPES = ("predict", "train")
_DEVICE_TEXT = re.compile(r"@?(\d+):(\d+)(-\d+)?")
#: The job whose function is being traced.
_current_job: ContextVar[Job | None] = ContextVar("oneflow_job", default=None)
#: How many GPUs jobs may use.
_gpu_limit = [1]


class Placeholder(TensorSpec):
    """The type of an argument of a job: `tp.Numpy.Placeholder((5,), dtype=flow.float32)`."""


class Numpy:
    """As the annotation of a result: a NumPy array."""

    Placeholder = Placeholder


class FunctionConfig:
    """Settings of a job; each method sets one."""

    def __init__(self) -> None:
        self.placement: Device | None = None

    def default_placement_scope(self, scope: Placement) -> None:
        """The device of calls outside of any scope."""
        self.placement = scope.device

    def default_data_type(self, dtype: DType) -> None:
        """The element type of placeholders without one: always float32.

        Raises:
            CallError: another type is given.
        """
        if dtype != float32:
            raise CallError(f"expected the default data type float32, got {dtype.mlir}; pass a dtype to placeholders")


@dataclass
class Watched:
    """A tensor of a job; `callback` receives the values of the tensor, or of its gradient, after each run."""

    callback: Callable[[Any], None]
    leaf: Leaf | None = None


class Job(CompiledFunction):
    """A job: a function of arrays, compiled for the device that its scopes name."""

    def __init__(self, fn: Callable[..., Any], specs: dict[str, Any], type: str, config: FunctionConfig) -> None:
        super().__init__(self._with_watched(fn), specs, None)
        self.type, self.config = type, config
        self.scope_devices: list[Device] = []
        self.watched: list[Watched] = []
        self.variables: dict[str, Any] = {}
        self.optimizers: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the job on arrays.

        Raises:
            CallError: an argument does not match the job, or the device does not exist.
            TraceError: the function cannot become a program.
        """
        for optimizer in self.optimizers:
            optimizer.set_rate()
        value_of_job, watched_values = super().__call__(*args, **kwargs)
        for optimizer in self.optimizers:
            optimizer.count += 1
        for watched, value in zip(self.watched, watched_values, strict=True):
            if watched.leaf is not None:
                value, watched.leaf.grad = watched.leaf.grad, None
            watched.callback(_as_array(value))
        leaves, tree = flatten(value_of_job)
        return tree.unflatten([_as_array(x) for x in leaves])

    def _with_watched(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The traced function: it returns the result of the job and the watched tensors."""

        @functools.wraps(fn)
        def traced(*args: Any, **kwargs: Any) -> Any:
            self.scope_devices.clear()
            self.watched.clear()
            self._watched_values: list[Any] = []
            self._minimized = 0
            token = _current_job.set(self)
            try:
                result = fn(*args, **kwargs)
            finally:
                _current_job.reset(token)
            if self.type == "train" and not self.optimizers:
                raise CallError(f"{fn.__name__}: expected a train job to call minimize(loss) of a flow.optimizer")
            return result, tuple(self._watched_values)

        return traced

    def optimizer(self, optimizer: Any) -> Any:
        """The optimizer of the next `minimize` of the function: `optimizer`, or the optimizer of an earlier trace."""
        if len(self.optimizers) == self._minimized:
            self.optimizers.append(optimizer)
        self._minimized += 1
        return self.optimizers[self._minimized - 1]

    @property
    def minimized(self) -> bool:
        """Whether the running trace has called `minimize`."""
        return self._minimized > 0

    def watch(self, tensor: Tensor, watched: Watched) -> None:
        """Adds a watched tensor."""
        self.watched.append(watched)
        self._watched_values.append(tensor if watched.leaf is None else None)

    def _compile(self, traced: Traced, where: Device) -> Specialization:
        gpu = next((p for p in self.scope_devices if p.type == "cuda"), None)
        self.device = gpu or (
            self.scope_devices[0] if self.scope_devices else self.config.placement or _default_device()
        )
        return super()._compile(traced, self.device)


def _as_array(value: Any) -> Any:
    """A result as an array of NumPy."""
    value = value.detach() if isinstance(value, EagerTensor) else value
    return value.numpy() if hasattr(value, "numpy") else value


def _default_device() -> Device:
    """The device of jobs without a scope: a GPU if a GPU exists and jobs may use it."""
    return device("cuda" if _gpu_limit[0] and cuda.is_available() else "cpu")


def allow_gpus(count: int) -> None:
    """Sets how many GPUs jobs may use.

    Raises:
        ValueError: `count` is below 0.
    """
    if count < 0:
        raise ValueError(f"expected a number of devices of at least 0, got {count}")
    _gpu_limit[0] = count


def current_job(what: str) -> Job:
    """The job that is being traced.

    Raises:
        CallError: there is no job, which `what` requires.
    """
    job = _current_job.get()
    if job is None:
        raise CallError(
            f"expected {what} in the function of a job, got a call outside; decorate with @flow.global_function"
        )
    return job


def global_function(type: Any = "predict", function_config: FunctionConfig | None = None) -> Callable[..., Job]:
    """A decorator that makes a job of a function whose parameters are annotated with placeholders.

    Args:
        type: "predict", or "train" for a job that calls `minimize` of an optimizer. A `FunctionConfig` as `type`
            makes a "predict" job.
        function_config: settings.

    Raises:
        CallError: the type is another, or a parameter has no placeholder.
    """
    if isinstance(type, FunctionConfig):
        type, function_config = "predict", type
    if type not in TYPES:
        raise CallError(f"expected the type of a job, {' or '.join(map(repr, TYPES))}, got {type!r}")

    def wrap(fn: Callable[..., Any]) -> Job:
        hints = inspect.get_annotations(fn, eval_str=True)
        names = list(inspect.signature(fn).parameters)
        for name in names:
            if not isinstance(hints.get(name), TensorSpec):
                raise CallError(
                    f"{fn.__name__}: expected {name} to be annotated with tp.Numpy.Placeholder(shape, dtype)"
                )
        return Job(fn, {name: hints[name] for name in names}, type, function_config or FunctionConfig())

    return wrap


@dataclass(frozen=True)
class Placement:
    """The scope of a device: `with flow.scope.placement("gpu", "0:0"):`."""

    device: Device

    def __enter__(self) -> Placement:
        job = _current_job.get()
        if job is not None:
            job.scope_devices.append(self.device)
        return self

    def __exit__(self, *raised: object) -> None:
        return None


def placement(device_tag: str, machine_device_ids: Any = "0:0", hierarchy: Any = None) -> Placement:
    """The scope of a device. A job in which a scope says "gpu" runs there; kernels for the host get copies.

    Args:
        device_tag: "cpu", "gpu" or "cuda".
        machine_device_ids: the machine, always 0, and the device: "0:0", or a list of one such text.
        hierarchy: ignored, for older programs; for several devices there is `flow.placement`.

    Raises:
        CallError: the device is another, is several, or is not there.
    """
    call_text = f"flow.scope.placement({device_tag!r}, {machine_device_ids!r})"
    if device_tag not in ("cpu", "gpu", "cuda"):
        raise CallError(f'{call_text}: expected the device "cpu" or "gpu", got {device_tag!r}')
    number = _device_number(machine_device_ids, call_text)
    if device_tag == "cpu":
        return Placement(device("cpu"))
    present = cuda.device_count() if cuda.is_available() else 0
    if number >= present:
        raise CallError(
            f"{call_text}: expected one of the GPUs of this machine ({present or 'none'}); "
            'use flow.scope.placement("cpu", "0:0")'
        )
    return Placement(device("cuda", number))


def _device_number(ids: Any, call_text: str) -> int:
    texts = [ids] if isinstance(ids, str) else list(ids)
    match = _DEVICE_TEXT.fullmatch(texts[0]) if len(texts) == 1 else None
    if match is None or match[1] != "0" or match[3] is not None:
        raise CallError(
            f'{call_text}: expected one device such as "0:0"; programs on several are compiled for a flow.placement'
        )
    return int(match[2])


def watch(blob: Tensor, handler_or_prompt: Callable[[Any], None] | str) -> None:
    """Has the values of a tensor passed to a function, or printed after a text, after each run of the job."""
    current_job("flow.watch").watch(blob, Watched(_handler(handler_or_prompt)))


def watch_diff(blob: Tensor, handler_or_prompt: Callable[[Any], None] | str) -> None:
    """Has the values of the gradient of a tensor passed to a function, or printed, after each run of the job.

    Raises:
        TraceError: the job has computed its gradients already.
    """
    job, leaf = current_job("flow.watch_diff"), Leaf()
    if job.minimized:
        raise fail(
            "flow.watch_diff: expected it before minimize(loss), which computes the gradients; call "
            "flow.watch_diff earlier"
        )
    job.watch(blob, Watched(_handler(handler_or_prompt), leaf))
    builder = current_builder()
    builder.captures.leaves.append((builder.read(blob), leaf))  # type: ignore[attr-defined]


def _handler(handler: Callable[[Any], None] | str) -> Callable[[Any], None]:
    return handler if callable(handler) else lambda array: print(handler, array)
