"""Random tensors, and functions that use random numbers. Imports `rules`, `shape`.

Each call in a function takes the next seed of the generator when the function is traced, so a compiled function
gives the same numbers every time it runs, on every backend; `manual_seed` makes traces repeat. The numbers are
Philox's.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.errors import fail
from oneflow.frontend.functional.rules import cast
from oneflow.frontend.functional.shape import spread
from oneflow.frontend.tensor import Tensor

__all__ = [
    "bernoulli", "dropout", "manual_seed", "rand", "randint", "randn",
]  # fmt: skip

_WORD = (1 << 64) - 1


def _seeds(seed: int) -> Iterator[int]:
    """Seeds of 63 bits that belong to `seed`, one after the other: SplitMix64."""
    for number in itertools.count(1):
        z = (seed + number * 0x9E3779B97F4A7C15) & _WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        yield (z ^ (z >> 31)) >> 1


class _Generator(threading.local):
    """The seeds that functions traced by this thread take."""

    def __init__(self) -> None:
        self.seeds = _seeds(0)


_generator = _Generator()


def manual_seed(seed: int) -> None:
    """Restarts the seeds that functions take from here on, in this thread; they start from 0."""
    _generator.seeds = _seeds(seed)


def _next() -> int:
    return next(_generator.seeds)


def _drawn(op: str, size: tuple[Any, ...], dtype: DType, **attrs: Any) -> Tensor:
    wide = dtype if dtype == dtypes.float64 else dtypes.float32
    return cast(dispatch(op, dtype=wide, shape=spread(size), seed=_next(), **attrs), dtype)


def rand(*size: Any, dtype: DType = dtypes.float32) -> Tensor:
    """Numbers drawn evenly from [0, 1); sizes one by one or as a list."""
    return _drawn("uniform", size, dtype)


def randn(*size: Any, dtype: DType = dtypes.float32) -> Tensor:
    """Numbers drawn from the normal distribution of mean 0 and deviation 1; sizes one by one or as a list."""
    return _drawn("normal", size, dtype)


def randint(low: int, high: int, size: Any, *, dtype: DType = dtypes.int64) -> Tensor:
    """Integers drawn evenly from [low, high)."""
    return dispatch("uniform_int", dtype=dtype, shape=spread([size]), seed=_next(), **{"from": low, "to": high})


def bernoulli(x: Any, p: float | None = None) -> Tensor:
    """1 with the probability that each element of `x` is (or with the probability p), else 0; floats."""
    x = as_tensor(x)
    return dispatch("bernoulli", x, dtype=x.dtype, seed=_next(), p=-1.0 if p is None else p)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeros with the probability p in place of elements, the others divided by 1 - p; `x` where not `training`."""
    x = as_tensor(x)
    if not 0 <= p <= 1:
        raise fail(f"expected a probability of 0 to 1 for dropout, got {p}")
    return dispatch_all("dropout", x, rate=p, seed=_next())[0] if training and p else x
