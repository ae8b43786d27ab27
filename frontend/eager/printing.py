"""Tensors as text, in PyTorch's format, with OneFlow's suffixes; `set_printoptions`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Options:
    """The options of `set_printoptions`.

    Attributes:
        precision: digits after the point.
        threshold: the number of elements from which on tensors are summarized.
        edgeitems: the elements at either end of a dimension that a summary has.
        linewidth: the columns of a line.
        sci_mode: whether numbers have exponents; None chooses by the numbers.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": Options(),
    "short": Options(precision=2, edgeitems=2),
    "full": Options(threshold=math.inf),
}
_options = [Options()]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed; None keeps an option, for `sci_mode` None leaves the choice to the numbers.

    Raises:
        ValueError: `profile` is none of "default", "short", "full".
    """
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"expected profile to be one of {', '.join(_PROFILES)}, got {profile!r}")
    base = _options[0] if profile is None else _PROFILES[profile]
    options: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options[0] = replace(base, sci_mode=sci_mode, **{k: v for k, v in options.items() if v is not None})


def to_text(array: np.ndarray | None, suffixes: Sequence[str], prefix: str = "tensor(") -> str:
    """An array as text: its elements, then the suffixes, broken into lines; dots for an array that is not known."""
    if array is None:
        return _with_suffixes(f"{prefix}[...]", suffixes, len(prefix))
    if not array.size:
        sizes = [f"size={array.shape}"] if array.ndim != 1 else []
        return _with_suffixes(f"{prefix}[]", [*sizes, *suffixes], len(prefix))
    wide = _in_double(array) if array.dtype.kind not in "biuc" else array
    summarize = array.size > _options[0].threshold
    numbers = _Numbers(np.concatenate([np.ravel(p) for p in _summarized(wide)]) if summarize else wide.ravel())
    return _with_suffixes(prefix + _elements(wide, len(prefix), summarize, numbers), suffixes, len(prefix))


def _in_double(array: np.ndarray) -> np.ndarray:
    """An array in double precision; elements that are repeated are converted once."""
    once = array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]
    return np.broadcast_to(once.astype(np.float64), array.shape)


class _Numbers:
    """The format that numbers have in common."""

    def __init__(self, values: np.ndarray) -> None:
        options = _options[0]
        self.precision, self.is_float = options.precision, values.dtype.kind in "fc"
        self.is_whole, self.has_exponent, self.width = True, bool(options.sci_mode), 1
        if not self.is_float:
            self.width = max(len(self._text(v)) for v in values.tolist())
            return
        parts = np.concatenate([values.real, values.imag]) if values.dtype.kind == "c" else values
        finite = parts[np.isfinite(parts) & (parts != 0)]
        if not finite.size:
            return
        low, high = np.abs(finite).min(), np.abs(finite).max()
        self.is_whole = bool((finite == np.ceil(finite)).all())
        by_numbers = high / low > 1000 or high > 1e8 or (not self.is_whole and low < 1e-4)
        self.has_exponent = by_numbers if options.sci_mode is None else options.sci_mode
        shown = values if parts is not values else finite
        self.width = max(len(self._text(v)) for v in shown.tolist())

    def _text(self, value: Any) -> str:
        if not self.is_float:
            return str(value)
        spec = f".{self.precision}e" if self.has_exponent else ".0f" if self.is_whole else f".{self.precision}f"
        if isinstance(value, complex):
            return f"({value.real:{spec}}{value.imag:+{spec}}j)"
        return f"{value:{spec}}" + "." * (spec == ".0f" and math.isfinite(value))

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


def _ends(size: int) -> tuple[range, range]:
    """The positions of a dimension that a summary shows; the second range is empty where the summary shows all."""
    edge = _options[0].edgeitems
    return (range(edge), range(size - edge, size)) if size > 2 * edge else (range(size), range(0))


def _summarized(array: np.ndarray) -> Iterator[np.ndarray]:
    """The parts of an array that a summary shows."""
    if not array.ndim:
        yield array
        return
    first, last = _ends(len(array))
    for i in (*first, *last):
        yield from _summarized(array[i])


def _elements(array: np.ndarray, indent: int, summarize: bool, numbers: _Numbers) -> str:
    if not array.ndim:
        return numbers(array.item())
    first, last = _ends(len(array)) if summarize else (range(len(array)), range(0))
    dots = [" ..." if array.ndim == 1 else "..."] if last else []
    if array.ndim == 1:
        texts = [*(numbers(array[i].item()) for i in first), *dots, *(numbers(array[i].item()) for i in last)]
        count = max(1, (_options[0].linewidth - indent) // (numbers.width + 2))
        lines = [", ".join(texts[i : i + count]) for i in range(0, len(texts), count)]
        return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"
    parts = [[_elements(array[i], indent + 1, summarize, numbers) for i in end] for end in (first, last)]
    between = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return f"[{between.join([*parts[0], *dots, *parts[1]])}]"


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options[0].linewidth:
            text, column = f"{text},\n{' ' * indent}{suffix}", indent + len(suffix)
        else:
            text, column = f"{text}, {suffix}", column + len(suffix) + 2
    return text + ")"
