"""Mixed precision: `flow.autocast` computes products in 16 bits, `GradScaler` does loss scaling.

with flow.autocast("cpu", dtype=flow.bfloat16):
    loss = loss_of(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import current_builder
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.promotion import common_dtype
from oneflow.frontend.core.settings import SCOPE, Scope
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import no_grad
from oneflow.frontend.eager.tensor import EagerTensor
from oneflow.frontend.optim.clipping import on_one_placement

__all__ = [
    "GradScaler", "StaticGradScaler", "autocast", "get_autocast_cpu_dtype", "get_autocast_gpu_dtype",
    "is_autocast_enabled",
]  # fmt: skip

#: Operators that autocast computes in 16 bits: products of matrices, convolutions.
LOW_PRECISION_OPERATORS = frozenset("""
    attention batch_matmul broadcast_matmul conv1d conv2d conv3d deconv1d deconv2d deconv3d fused_matmul_bias matmul
""".split())  # fmt: skip
#: Operators that autocast computes in float32: operators that lose much in 16 bits, and losses.
FLOAT32_OPERATORS = frozenset("""
    acos asin binary_cross_entropy binary_cross_entropy_with_logits broadcast_pow cosh cumprod cumsum erf exp exp2
    expm1 group_norm kl_div_loss layer_norm log log10 log1p log2 log_softmax nll pow reciprocal reduce_prod reduce_sum
    rms_norm rsqrt scalar_pow sinh smooth_l1_loss softmax sparse_softmax_cross_entropy tan
""".split())  # fmt: skip
#: Operators whose further operands take the element type of the first.
FIRST_TYPE_OPERATORS = frozenset(["bias_add"])

#: Operators whose operands take the widest of their element types.
PROMOTED_OPERATORS = frozenset("""
    dim_scatter_add dim_scatter_amax dim_scatter_amin dim_scatter_mul dim_scatter_update grid_sample index_add
""".split())  # fmt: skip

#: The 16-bit type of each kind of device, where none is given.
_DTYPES = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}


@dataclass(frozen=True)
class Policy:
    """The settings of an `autocast`: the kind of device, "" for any, and the 16-bit type."""

    device_type: str
    dtype: DType

    def converted(self, name: str, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands of an operator; operands of up to 32 bits have the type in which the operator is computed."""
        target = self._target(name, [x for x in operands if isinstance(x, Tensor) and x.dtype.is_float])
        if target is None or not self._covers(operands):
            return operands
        return [_cast(x, target) for x in operands]

    def _target(self, name: str, floats: Sequence[Tensor]) -> DType | None:
        """The type in which an operator is computed; None for the types of its operands."""
        if name in LOW_PRECISION_OPERATORS or name in FLOAT32_OPERATORS:
            return self.dtype if name in LOW_PRECISION_OPERATORS else dtypes.float32
        if name in FIRST_TYPE_OPERATORS and floats:
            return floats[0].dtype
        return (
            functools.reduce(common_dtype, (x.dtype for x in floats))
            if name in PROMOTED_OPERATORS and floats
            else None
        )

    def _covers(self, operands: Sequence[Any]) -> bool:
        """Whether operands are on the kind of device; a captured tensor tells it before the function does."""
        tensors = sorted((x for x in operands if isinstance(x, Tensor)), key=lambda x: not isinstance(x, EagerTensor))
        first: Any = tensors[0] if tensors else None
        return not self.device_type or first is None or first.device.type == self.device_type


def _cast(x: Any, dtype: DType) -> Any:
    if isinstance(x, (list, tuple)):
        return [_cast(v, dtype) for v in x]
    return F.cast(x, dtype) if isinstance(x, Tensor) and x.dtype.is_float and x.dtype.bits <= 32 else x


#: The settings around the `autocast` contexts of a thread, outermost first; an `autocast` may serve many threads.
_OUTER: ContextVar[tuple[Scope, ...]] = ContextVar("oneflow_autocast_outer", default=())


class autocast:  # noqa: N801 (PyTorch's name)
    """A context, or a decorator, in which products of matrices and convolutions of float32 are computed in 16 bits,
    and functions that lose much in 16 bits in float32. Other functions keep the types of their operands.

    Args:
        device_type: "cpu" or "cuda": tensors on other devices are left alone.
        dtype: the 16-bit type, by default bfloat16 on the host and float16 on CUDA devices.
        enabled: whether it does anything; False ends an autocast around it.
        cache_enabled: taken for programs of PyTorch; conversions are not kept.
        any_device: whether tensors on every kind of device are converted.

    Raises:
        ValueError: the device or the type is another.
    """

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        *,
        any_device: bool = False,
    ) -> None:
        if device_type not in _DTYPES:
            raise ValueError(f'expected device_type to be "cpu" or "cuda", got {device_type!r}')
        chosen = dtype or _DTYPES[device_type]
        if not isinstance(chosen, DType) or not chosen.is_float or chosen.bits != 16:
            raise ValueError(f"expected dtype to be flow.float16 or flow.bfloat16, got {dtype!r}")
        self._policy = Policy("" if any_device else device_type, chosen) if enabled else None

    def __enter__(self) -> autocast:
        _OUTER.set((*_OUTER.get(), outer := SCOPE.get()))
        SCOPE.set(outer._replace(autocast=self._policy))
        return self

    def __exit__(self, *_: Any) -> None:
        *outer, last = _OUTER.get()
        SCOPE.set(last)
        _OUTER.set(tuple(outer))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called within the context."""

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return within


def is_autocast_enabled() -> bool:
    """Whether an autocast is in force."""
    return SCOPE.get().autocast is not None


def get_autocast_cpu_dtype() -> DType:
    """The 16-bit type of an autocast on the host that names none."""
    return _DTYPES["cpu"]


def get_autocast_gpu_dtype() -> DType:
    """The 16-bit type of an autocast on CUDA devices that names none."""
    return _DTYPES["cuda"]


class StaticGradScaler:
    """A constant by which a graph multiplies its loss, and divides its gradients.

    Raises:
        ValueError: it is not positive.
    """

    def __init__(self, scale_factor: float) -> None:
        if not scale_factor > 0 or math.isinf(scale_factor):
            raise ValueError(f"expected scale_factor to be positive and finite, got {scale_factor}")
        self._scale = float(scale_factor)

    def get_scale(self) -> float:
        """The factor."""
        return self._scale

    def update_scale(self, finite: bool) -> None:
        """Does nothing: the factor is constant."""


class GradScaler:
    """A factor by which the loss is multiplied before `backward`, so that gradients do not vanish in 16 bits.

    `step` divides the gradients by it, and updates nothing where one is not finite. `update` then multiplies the
    factor by `backoff_factor`; after `growth_interval` steps whose gradients were finite, by `growth_factor`.

    Raises:
        ValueError: factors do not grow and shrink.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (growth_factor > 1 and 0 < backoff_factor < 1 and init_scale > 0 and growth_interval > 0):
            raise ValueError(
                "expected growth_factor above 1, backoff_factor of 0 to 1, and positive init_scale and "
                f"growth_interval, got {growth_factor}, {backoff_factor}, {init_scale}, {growth_interval}"
            )
        self._scale, self._growth_factor, self._backoff_factor = float(init_scale), growth_factor, backoff_factor
        self._growth_interval, self._enabled, self._finite_steps = growth_interval, enabled, 0
        self._unscaled: dict[int, bool] = {}

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The current factor."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a list or tuple of tensors, times the factor."""
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        return F.mul(outputs, self._scale) if self._enabled else outputs

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer by the factor, before they are clipped.

        Raises:
            RuntimeError: it did so already since the last `update`.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise refuse(
                "expected unscale_ once for an optimizer before update, got a second call; call update() first"
            )
        self._unscaled[id(optimizer)] = bool(unscaled(_parameters(optimizer), lambda: self._scale))

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()` with gradients divided by the factor; nothing where one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        return optimizer.step(*args, **kwargs) if self._unscaled[id(optimizer)] else None

    def update(self, new_scale: float | None = None) -> None:
        """Ends a step: the factor shrinks or grows, or becomes `new_scale`.

        Raises:
            OneFlowError: no optimizer was stepped, and there is no new factor.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._unscaled:
            raise fail("expected step or unscale_ of an optimizer before update, got neither")
        else:
            self.update_scale(all(self._unscaled.values()))
        self._unscaled.clear()

    def update_scale(self, finite: bool) -> None:
        """Shrinks the factor after gradients that were not finite, or counts a step towards its growth."""
        self._finite_steps = self._finite_steps + 1 if finite else 0
        if not finite:
            self._scale *= self._backoff_factor
        elif self._finite_steps == self._growth_interval:
            self._scale, self._finite_steps = self._scale * self._growth_factor, 0

    def state_dict(self) -> dict[str, Any]:
        """The factor, and how it changes."""
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._finite_steps,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state."""
        self._scale, self._finite_steps = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]


def _parameters(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


@no_grad()
def unscaled(parameters: Iterable[Any], scale: Callable[[], float]) -> Tensor:
    """Divides gradients by a factor, which compiled functions read at every run; returns whether all gradients are
    finite.
    """
    factor = F.reciprocal(current_builder().runtime_scalar(scale, dtypes.float32))
    counts = [F.full((), 0, dtype=dtypes.int64)]
    for p in parameters:
        wide = common_dtype(p.grad.dtype, dtypes.float32)  # the factor may be too small for 16 bits
        p.grad.copy_(F.cast(F.mul(F.cast(p.grad, wide), F.cast(factor, wide)), p.grad.dtype))
        # Ranks add up numbers of elements; truth values would be gathered.
        counts.append(F.sum(F.cast(F.logical_not(F.isfinite(p.grad)), dtypes.int64)))
    return F.eq(functools.reduce(F.add, on_one_placement(counts[1:] or counts)), 0)
