"""The exceptions of failed runs, for all devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.lowering.linalg.checks import SHARED_DIMENSION

#: The advice of a message about differing sizes of which one is 1.
BROADCAST = (
    "; dimensions that are only known at run time are not broadcast: where one is 1 and is to be repeated, state that"
    " size (TensorSpec((1, 64)) in place of TensorSpec((None, 64)), tensor<1x64xf32> in place of tensor<?x64xf32>)"
)


class RunError(RuntimeError):
    """A run failed."""


class OutOfBoundsError(RunError, IndexError):
    """An index in the data is out of bounds; the operator defines the text."""


class SizeError(RunError, ValueError):
    """Sizes that are known at run time only do not match."""


class KernelError(RunError):
    """An external kernel failed; the kernel defines the text."""


def out_of_bounds_error(site: str, got: int, size: int, more: str = "") -> OutOfBoundsError:
    """The error of an index outside `[0, size)`; `site` names the operand and the source location."""
    return OutOfBoundsError(f"{site}: expected an index in [0, {size}), got {got}{more}")


def size_error(site: str, got: int, wanted: int, more: str = "") -> SizeError:
    """The error of a size that is not the expected one; `site` names the operand and the source location."""
    advice = BROADCAST if 1 in (got, wanted) and SHARED_DIMENSION in site else ""
    return SizeError(f"{site}: expected {wanted}, got {got}{advice}{more}")


class Sites(Sequence[str]):
    """The texts of checks. Source locations are added at the first access, since they need another lowering."""

    def __init__(self, texts: Sequence[str], located: Callable[[], Sequence[str]]) -> None:
        self._texts, self._located = texts, located

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: Any) -> Any:
        return self._located_texts[index]

    @functools.cached_property
    def _located_texts(self) -> Sequence[str]:
        return self._located()
