"""What a run that does not finish raises, on every device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.lowering.linalg.checks import SHARED_DIMENSION

#: What is said where sizes differ and one of them is 1.
BROADCAST = (
    "; dimensions that are only known at run time are not broadcast: where one is 1 and is to be repeated, state that"
    " size (TensorSpec((1, 64)) in place of TensorSpec((None, 64)), tensor<1x64xf32> in place of tensor<?x64xf32>)"
)


class RunError(RuntimeError):
    """A run that did not finish."""


class PositionError(RunError, IndexError):
    """A position that came from data was out of range; the text is the operator's."""


class SizeError(RunError, ValueError):
    """Sizes that are only known at run time did not fit."""


class KernelError(RunError):
    """A kernel made elsewhere failed; the text is its own."""


def position_error(site: str, got: int, size: int, more: str = "") -> PositionError:
    """The error of a position outside of `[0, size)`; `site` says what it is of and where."""
    return PositionError(f"{site}: expected a position in [0, {size}), got {got}{more}")


def size_error(site: str, got: int, wanted: int, more: str = "") -> SizeError:
    """The error of a size that is not the wanted one; `site` says what it is of and where."""
    advice = BROADCAST if 1 in (got, wanted) and SHARED_DIMENSION in site else ""
    return SizeError(f"{site}: expected {wanted}, got {got}{advice}{more}")


class Sites(Sequence[str]):
    """Texts of checks; what one says is looked up with its place in the source when it is asked for."""

    def __init__(self, texts: Sequence[str], located: Callable[[], Sequence[str]]) -> None:
        self._texts, self._located = texts, located

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, number: Any) -> Any:
        return self._whole[number]

    @functools.cached_property
    def _whole(self) -> Sequence[str]:
        return self._located()
