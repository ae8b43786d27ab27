"""`flow.utils.global_view`: structures of tensors moved to and from placements, and the global mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.dialect.sbp import Sbp
from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.settings import SCOPE
from oneflow.frontend.core.tensor import Tensor
from oneflow.runtime.global_array import Placement

__all__ = ["current_global_mode", "global_mode", "to_global", "to_local"]


def to_global(input: Any, placement: Placement | None = None, sbp: Any = None, **options: Any) -> Any:
    """The tensors of a nested structure on a placement; `sbp` is a layout, or a function from the structure and a
    tensor to the layout of the tensor.
    """
    varies = callable(sbp) and not isinstance(sbp, Sbp)
    return _mapped(lambda x: x.to_global(placement, sbp(input, x) if varies else sbp, **options), input)


def to_local(input: Any, *, copy: bool = False) -> Any:
    """The shards of this rank of the global tensors of a nested structure, with `copy` in new memory; other tensors
    stay.
    """

    def shard(x: Tensor) -> Tensor:
        local = x.to_local() if x.is_global else x
        return local.clone() if copy and x.is_global else local

    return _mapped(shard, input)


def _mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    leaves, tree = flatten(structure)
    return tree.unflatten([function(x) if isinstance(x, Tensor) else x for x in leaves])


class global_mode:  # noqa: N801 (OneFlow's name)
    """A context in which functions that make tensors make global tensors, of a placement and an SBP layout.

    Raises:
        ValueError: the context has neither.
    """

    def __init__(self, enabled: bool, placement: Placement | None = None, sbp: Any = None) -> None:
        if enabled and (placement is None or sbp is None):
            raise ValueError(f"expected a placement and sbp for the global mode, got {placement} and {sbp}")
        layout = (
            tuple(sbp) if isinstance(sbp, list) else sbp
        )  # programs are found by their settings, which are hashed
        self._mode = (placement, layout) if enabled and placement is not None else None
        self._token = SCOPE.set(SCOPE.get()._replace(global_mode=self._mode))

    def __enter__(self) -> global_mode:
        return self

    def __exit__(self, *_: Any) -> None:
        SCOPE.reset(self._token)


class current_global_mode:  # noqa: N801 (OneFlow's name)
    """The global mode that is in force: `is_enabled`, `placement`, `sbp`."""

    def __init__(self) -> None:
        mode = SCOPE.get().global_mode
        self.is_enabled = mode is not None
        placement, sbp = mode or (None, None)
        self.placement: Placement | None = placement
        self.sbp = sbp if sbp is None or isinstance(sbp, tuple) else (sbp,)
