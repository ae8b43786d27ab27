"""Random tensors, and functions that use random numbers. Each call takes the next seed of the generator: in eager
mode and in a compiled function at every run, so that runs differ; in `flow.trace` when the function is traced.
`manual_seed` makes them repeat. The numbers are Philox's, the same on every backend.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.devices import tensor_factory
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.elementwise import mul
from oneflow.frontend.functional.padding import as_batch
from oneflow.frontend.functional.rules import cast, describe
from oneflow.frontend.functional.shape import narrow, reshape, spread
from oneflow.frontend.functional.source import ones_like
from oneflow.frontend.functional.updating import with_inplace

__all__ = [
    "bernoulli", "dropout", "dropout1d", "dropout2d", "dropout3d", "manual_seed", "rand", "randint", "randn",
]  # fmt: skip

_WORD = (1 << 64) - 1


def _seeds(seed: int, taken: int) -> Iterator[int]:
    """Seeds of 62 bits that belong to `seed`, one after the other, after those that were taken: SplitMix64."""
    for number in itertools.count(taken + 1):
        z = (seed + number * 0x9E3779B97F4A7C15) & _WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
        yield (z ^ (z >> 31)) >> 2


class _Generator(threading.local):
    """The seeds that functions of this thread take."""

    def __init__(self) -> None:
        self.restart(0)

    def restart(self, seed: int, taken: int = 0) -> None:
        self.seed, self.taken, self.seeds = seed, taken, _seeds(seed, taken)

    def next(self) -> int:
        self.taken += 1
        return next(self.seeds)


_generator = _Generator()


def manual_seed(seed: int) -> None:
    """Restarts the seeds that functions take from here on, in this thread; they start from 0."""
    _generator.restart(seed)


def get_rng_state() -> tuple[int, int]:
    """Where the seeds are: to be kept in a checkpoint and given to `set_rng_state`."""
    return _generator.seed, _generator.taken


def set_rng_state(state: tuple[int, int]) -> None:
    """Goes on from a state that `get_rng_state` gave."""
    _generator.restart(*state)


def numpy_generator() -> np.random.Generator:
    """A generator of NumPy that takes the next seed: for values that are made outside of programs."""
    return np.random.Generator(np.random.Philox(_generator.next()))


def random_offset() -> Tensor:
    """The next seed, as what is added to the seed of an operator."""
    return current_builder().number(_generator.next, dtypes.int64)


def _drawn(op: str, size: tuple[Any, ...], dtype: DType, **attrs: Any) -> Tensor:
    wide = dtype if dtype == dtypes.float64 else dtypes.float32
    return cast(dispatch(op, random_offset(), dtype=wide, shape=spread(size), **attrs), dtype)


@tensor_factory
def rand(*size: Any, dtype: DType = dtypes.float32) -> Tensor:
    """Numbers drawn evenly from [0, 1); sizes one by one or as a list."""
    return _drawn("uniform", size, dtype)


@tensor_factory
def randn(*size: Any, dtype: DType = dtypes.float32) -> Tensor:
    """Numbers drawn from the normal distribution of mean 0 and deviation 1; sizes one by one or as a list."""
    return _drawn("normal", size, dtype)


@tensor_factory
def randint(low: int, high: int, size: Any, *, dtype: DType = dtypes.int64) -> Tensor:
    """Integers drawn evenly from [low, high)."""
    return dispatch("uniform_int", random_offset(), dtype=dtype, shape=spread([size]), **{"from": low, "to": high})


def bernoulli(x: Any, p: float | None = None) -> Tensor:
    """1 with the probability that each element of `x` is (or with the probability p), else 0; floats."""
    x = as_tensor(x)
    return dispatch("bernoulli", x, random_offset(), dtype=x.dtype, p=-1.0 if p is None else p)


@with_inplace
def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeros with the probability p in place of elements, the others divided by 1 - p; `x` where not `training`."""
    tensor = as_tensor(x)
    if not 0 <= p <= 1:
        raise fail(f"expected a probability of 0 to 1 for dropout, got {p}")
    if not training or not p:
        return tensor
    mask = dispatch("random_mask_like", tensor, random_offset(), rate=p)
    return dispatch("dropout_grad", tensor, mask, scale=1 / (1 - p) if p < 1 else 0.0)


def _channel_dropout(spatial: int, ranks: Sequence[int], alone_too: bool) -> Callable[..., Tensor]:
    """The dropout of channels, dimension 1 of tensors of `ranks`; `alone_too` takes one image without a batch."""

    def function(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
        images, drop_batch = as_batch(as_tensor(x), spatial) if alone_too else (as_tensor(x), as_tensor)
        if images.rank not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise fail(f"expected a tensor of {wanted} dimensions for dropout{spatial}d, got {images.desc}")
        if not training or not p:
            return drop_batch(images)
        kept = dropout(ones_like(narrow(reshape(images, (*images.sizes()[:2], -1)), 2, 0, 1)), p)
        return drop_batch(mul(images, reshape(kept, (*images.sizes()[:2], *[1] * (images.rank - 2)))))

    doc = "Zeros with the probability p in place of whole channels, the others divided by 1 - p, where `training`."
    return with_inplace(describe(function, f"dropout{spatial}d", doc))


dropout1d = _channel_dropout(1, (3,), True)
dropout2d = _channel_dropout(2, (2, 3, 4, 5), False)
dropout3d = _channel_dropout(3, (5,), True)
