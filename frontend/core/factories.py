"""Functions that make tensors: the parameters that all of them have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from oneflow.frontend.core.devices import Device
from oneflow.frontend.core.settings import SCOPE

T = TypeVar("T")


def tensor_factory(function: Callable[..., T]) -> Callable[..., T]:
    """A decorator of functions that make a tensor: adds `device`, `placement` with `sbp`, and `requires_grad`; sizes
    that are separate arguments may also be given as `size`.

    A tensor that a traced function makes is no leaf, even with `requires_grad`. `pin_memory` and `layout` are taken
    for programs of PyTorch: memory is pinned by copies to a device, and no tensor is sparse.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    one_by_one = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    before = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]

    def create(*args: Any, device: str | Device | None = None, placement: Any = None, sbp: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, layout: Any = None,
               **kwargs: Any) -> Any:  # fmt: skip
        if one_by_one and "size" in kwargs:
            named = [kwargs.pop(name) for name in before[len(args) :] if name in kwargs]
            args = (*args, *named, kwargs.pop("size"))
        tensor: Any = function(*args, **kwargs)
        if placement is None and sbp is None and device is None:
            placement, sbp = SCOPE.get().global_mode or (None, None)
        if placement is not None or sbp is not None:
            tensor = tensor.to_global(placement, sbp)
        elif device is not None and hasattr(tensor, "to_device"):
            tensor = tensor.to_device(device)
        return tensor.detach().requires_grad_() if requires_grad and tensor.builder.eager else tensor

    # `help` and type checkers see the added parameters in the signature.
    added = [p for p in inspect.signature(create, eval_str=True).parameters.values() if p.kind is p.KEYWORD_ONLY]
    declared = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    further = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    complete = signature.replace(parameters=[*declared, *added, *further])
    functools.update_wrapper(create, function).__signature__ = complete  # type: ignore[attr-defined]
    return create
