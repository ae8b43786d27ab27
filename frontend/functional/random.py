"""Random tensors, and functions that use random numbers. Each call takes the next seed of a generator
(`frontend/core/generator.py`). The numbers are Philox's, the same on every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oneflow.dialect import dtypes
from oneflow.dialect.dtypes import DType
from oneflow.frontend.core.devices import move
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.factories import tensor_factory
from oneflow.frontend.core.generator import Generator, default_generator, initial_seed, manual_seed, seed
from oneflow.frontend.core.promotion import is_number
from oneflow.frontend.core.settings import get_default_dtype
from oneflow.frontend.core.tensor import Size, Tensor
from oneflow.frontend.functional.elementwise import add, clamp, eq, leaky_relu, log, log1p, mul, neg, sub
from oneflow.frontend.functional.normalization import softmax
from oneflow.frontend.functional.ordering import argsort
from oneflow.frontend.functional.reduction import argmax
from oneflow.frontend.functional.rules import cast, describe
from oneflow.frontend.functional.shape import as_arguments, axis, narrow, reshape, squeeze, unsqueeze
from oneflow.frontend.functional.sizes import shaped
from oneflow.frontend.functional.source import arange, ones_like, zeros_like
from oneflow.frontend.functional.updating import with_inplace

__all__ = [
    "Generator", "bernoulli", "default_generator", "dropout", "dropout1d", "dropout2d", "dropout3d", "gumbel_softmax",
    "initial_seed",
    "manual_seed", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "rrelu", "seed",
]  # fmt: skip


def numpy_generator(generator: Generator | None = None) -> np.random.Generator:
    """A generator of NumPy with the next seed, for values that are computed outside of programs."""
    return np.random.Generator(np.random.Philox((generator or default_generator).next()))


def random_offset(generator: Generator | None = None) -> Tensor:
    """The next seed of a generator or of the thread, as the offset of the seed of an operator."""
    if generator is not None and not isinstance(generator, Generator):
        raise fail(f"expected generator to be a flow.Generator or None, got {generator!r}")
    return current_builder().runtime_scalar((generator or default_generator).next, dtypes.int64)


def drawn_tensor(
    op: str, sizes: Sequence[Any], generator: Generator | None, attribute: str = "shape", **attrs: Any
) -> Tensor:
    """The tensor that an operator draws, with its sizes in an attribute; an operand has sizes that are known at run
    time only.
    """
    offset = random_offset(generator)
    if any(isinstance(n, Size) for n in sizes):
        return dispatch(op, offset, shaped(sizes), **{attribute: ()}, **attrs)
    return dispatch(op, offset, **{attribute: tuple(sizes)}, **attrs)


def _drawn(op: str, size: tuple[Any, ...], dtype: DType | None, generator: Generator | None, **attrs: Any) -> Tensor:
    dtype = dtype or get_default_dtype()
    if not dtype.is_float:
        raise fail(f"expected a type of floats for random numbers, got {dtype!r}; write flow.randint for integers")
    wide = dtype if dtype == dtypes.float64 else dtypes.float32
    return cast(drawn_tensor(op, as_arguments(size), generator, dtype=wide, **attrs), dtype)


@tensor_factory
def rand(*size: Any, dtype: DType | None = None, generator: Generator | None = None) -> Tensor:
    """Uniform numbers in [0, 1); sizes one by one or as a list."""
    return _drawn("uniform", size, dtype, generator)


@tensor_factory
def randn(*size: Any, dtype: DType | None = None, generator: Generator | None = None) -> Tensor:
    """Numbers drawn from the normal distribution of mean 0 and deviation 1; sizes one by one or as a list."""
    return _drawn("normal", size, dtype, generator)


def drawn_exponential(sizes: Sequence[Any], lambd: float, dtype: DType, generator: Generator | None = None) -> Tensor:
    """Numbers of a type with the density lambd * exp(-lambd * x)."""
    wide = dtype if dtype == dtypes.float64 else dtypes.float32
    return cast(drawn_tensor("exponential", sizes, generator, "out_shape", dtype=wide, lambd=lambd), dtype)


@tensor_factory
def randint(
    low: int | Size, high: Any, size: Any = None, *, dtype: DType = dtypes.int64, generator: Generator | None = None
) -> Tensor:
    """Uniform integers in [low, high); with two arguments from [0, first), of the size of the second."""
    if size is None:
        low, high, size = 0, low, high
    if isinstance(low, Size) or isinstance(high, Size):
        share = mul(rand(*as_arguments([size]), dtype=dtypes.float64, generator=generator), high - low)
        return cast(add(cast(share, dtypes.int64), low), dtype)
    if low >= high:
        raise fail(f"expected low below high for randint, got {low} and {high}")
    wide = dtype if dtype.is_integer else dtypes.int64
    attrs: dict[str, Any] = {"from": int(low), "to": int(high)}
    return cast(drawn_tensor("uniform_int", as_arguments([size]), generator, dtype=wide, **attrs), dtype)


def _like(function: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    def like(x: Any, *, dtype: DType | None = None, **options: Any) -> Tensor:
        x = as_tensor(x)
        return function(x.sizes(), dtype=dtype or x.dtype, **options)

    return tensor_factory(describe(like, f"{function.__name__}_like", doc))


rand_like = _like(rand, "Uniform numbers in [0, 1) in the shape of `x`, and its element type or `dtype`.")
randn_like = _like(randn, "Normal numbers (`randn`) in the shape of `x`, and its element type or `dtype`.")


@tensor_factory
def randint_like(
    x: Any, low: int, high: int | None = None, *, dtype: DType | None = None, generator: Generator | None = None
) -> Tensor:
    """Uniform integers in [low, high), or in [0, low), in the shape of `x` and its type or `dtype`."""
    x = as_tensor(x)
    first, last = (0, low) if high is None else (low, high)
    return randint(first, last, x.sizes(), dtype=dtype or x.dtype, generator=generator)


@tensor_factory
def normal(mean: Any, std: Any, *size: Any, dtype: DType | None = None, generator: Generator | None = None) -> Tensor:
    """Normal numbers of a mean and a deviation, either of which is a number or a tensor; the tensors broadcast, and
    two numbers need a size.

    Raises:
        OneFlowError: a deviation is negative, or there are two numbers without a size.
    """
    if is_number(std) and std < 0:
        raise fail(f"expected a deviation of at least 0 for normal, got {std}")
    if is_number(mean) and is_number(std) and not size:
        raise fail("expected a size for normal of two numbers, got none; write flow.normal(0.0, 1.0, (2, 3))")
    if not size:
        tensors = [x for x in (mean, std) if not is_number(x)]
        size = (add(*map(zeros_like, (tensors * 2)[:2])).sizes(),)
        dtype = dtype or as_tensor(tensors[0]).dtype
    return add(mul(randn(*size, dtype=dtype, generator=generator), std), mean)


@tensor_factory
def randperm(n: int | Size, *, dtype: DType = dtypes.int64, generator: Generator | None = None) -> Tensor:
    """The integers from 0 to n - 1 in random order.

    Eager mode draws on the host, so that no program is compiled for each n.
    """
    if isinstance(n, Size):
        return cast(argsort(rand(n, dtype=dtypes.float64, generator=generator)), dtype)
    if n < 0:
        raise fail(f"expected n of at least 0 for randperm, got {n}")
    if current_builder().eager:
        return cast(as_tensor(numpy_generator(generator).permutation(n)), dtype)
    return cast(dispatch("randperm", random_offset(generator), n=n), dtype)


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """`num_samples` positions (int64) for each row of `input`, drawn with probabilities in proportion to its
    elements; none twice unless `replacement`.

    Raises:
        OneFlowError: elements are negative, not finite or all 0, or too few elements are not 0; an
            IndexError at run time.
        TraceError: a function is being traced, and several positions are drawn without replacement.
    """
    x: Any = as_tensor(input)
    if x.rank not in (1, 2) or not x.dtype.is_float or num_samples < 1:
        raise fail(f"expected rows of floats and num_samples of at least 1, got {x.desc} and {num_samples}")
    if replacement or num_samples == 1:
        offset = random_offset(generator)
        return dispatch("multinomial_with_replacement", x, None, offset, num_samples=num_samples)
    draw = _on_host("multinomial without replacement", generator)
    weights = x.array.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or (weights.sum(-1) <= 0).any():
        raise fail(
            "expected finite weights of at least 0 for multinomial, of which some are not 0 in each row, got"
            f" {np.array2string(weights, threshold=8)}"
        )
    if (np.count_nonzero(weights, -1) < num_samples).any():
        fewest = np.count_nonzero(weights, -1).min()
        raise fail(
            f"expected {num_samples} weights other than 0 in each row to draw as many without replacement, got"
            f" {fewest} in a row; pass replacement=True"
        )
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    drawn = np.argsort(-(logs + draw.gumbel(size=logs.shape)), -1)[..., :num_samples]
    return as_tensor(move(np.ascontiguousarray(drawn), x.device))


def _on_host(name: str, generator: Generator | None) -> np.random.Generator:
    """A generator of NumPy for values that are made on the host.

    Raises:
        TraceError: a function is being traced.
    """
    if not current_builder().eager:
        raise fail(
            f"{name} is computed outside of programs; call {name} before the function, and pass its result as "
            f"an argument"
        )
    return numpy_generator(generator)


def bernoulli(
    x: Any, p: float | None = None, *, generator: Generator | None = None, dtype: DType | None = None
) -> Tensor:
    """1 with the probability that each element of `x` is (or with the probability p), else 0; floats, or `dtype`.

    Raises:
        OneFlowError: a probability is not between 0 and 1. Those in a tensor are known in eager mode on the host.
    """
    x = as_tensor(x)
    if p is not None and not 0 <= p <= 1:
        raise fail(f"expected a probability of 0 to 1 for bernoulli, got {p}")
    if p is None and current_builder().eager:
        _expect_probabilities(x)
    return dispatch("bernoulli", x, random_offset(generator), dtype=dtype or x.dtype, p=-1.0 if p is None else p)


def _expect_probabilities(x: Any) -> None:
    """Checks probabilities on the host; reading probabilities of a device would wait for the device."""
    values = x.storage
    if not isinstance(values, np.ndarray):
        return
    are_probabilities = (values >= 0) & (values <= 1)
    if not are_probabilities.all():
        wrong = values[~are_probabilities].flat[0]
        raise fail(f"expected probabilities of 0 to 1 for bernoulli, got {wrong} among the elements of {x.desc}")


@with_inplace
def dropout(
    x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None, addend: Any = None
) -> Tensor:
    """Zeros with the probability p in place of elements, the others divided by 1 - p; `x` where not `training`.

    `addend` is added to the result.
    """
    if addend is not None:
        return add(dropout(x, p, training, generator=generator), addend)
    tensor = as_tensor(x)
    if not 0 <= p <= 1:
        raise fail(f"expected a probability of 0 to 1 for dropout, got {p}")
    if not training or not p:
        return tensor
    mask = dispatch("random_mask_like", tensor, random_offset(generator), rate=p)
    return dispatch("dropout_grad", tensor, mask, scale=1 / (1 - p) if p < 1 else 0.0)


@with_inplace
def rrelu(x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """`x` where it is positive, else `x` times a slope: with `training` uniform in [lower, upper) for each element,
    otherwise (lower + upper) / 2.

    Raises:
        OneFlowError: `lower` is more than `upper`.
    """
    if lower > upper:
        raise fail(f"expected lower of at most upper for rrelu, got {lower} and {upper}")
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return dispatch_all("rrelu", as_tensor(x), random_offset(), training=True, lower=lower, upper=upper)[0]


def _channel_dropout(spatial: int, ranks: Sequence[int], alone_too: bool) -> Callable[..., Tensor]:
    """The dropout of channels, dimension 1 of tensors of `ranks`; with `alone_too`, a tensor of fewer dimensions than
    a batch has is one without a batch.
    """

    def function(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
        images = as_tensor(x)
        if images.rank not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise fail(f"expected a tensor of {wanted} dimensions for dropout{spatial}d, got {images.desc}")
        drop_batch: Callable[[Tensor], Tensor] = as_tensor
        if alone_too and images.rank < spatial + 2:
            images, drop_batch = unsqueeze(images, 0), lambda result: squeeze(result, 0)
        if not training or not p:
            return drop_batch(images)
        channels = ones_like(narrow(reshape(images, (*images.sizes()[:2], -1)), 2, 0, 1))
        kept = dropout(channels, p, generator=generator)
        return drop_batch(mul(images, reshape(kept, (*images.sizes()[:2], *[1] * (images.rank - 2)))))

    doc = "Zeros with the probability p in place of whole channels, the others divided by 1 - p, where `training`."
    return with_inplace(describe(function, f"dropout{spatial}d", doc))


dropout1d = _channel_dropout(1, (2, 3), True)
dropout2d = _channel_dropout(2, (2, 3, 4, 5), False)
dropout3d = _channel_dropout(3, (2, 3, 4, 5), True)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, dim: int = -1) -> Tensor:
    """`softmax` of (logits + Gumbel noise) / tau along `dim`: nearly one-hot samples, to which gradients flow.

    With `hard` samples are one-hot, and gradients are the gradients of the samples before rounding.
    """
    x = as_tensor(logits)
    if tau <= 0:
        raise fail(f"expected tau above 0 for gumbel_softmax, got {tau}")
    drawn = rand(x.sizes(), dtype=x.dtype)
    exponential = neg(log1p(neg(drawn)))  # above 0 but for a draw of 0, whose logarithm is cut
    noise = neg(log(clamp(exponential, min=float(np.finfo(np.float32).tiny))))
    soft = softmax(mul(add(x, noise), 1 / tau), dim)
    if not hard:
        return soft
    dim_index = axis(x, dim)
    count = x.shape[dim_index]
    if count is None:
        raise fail(f"expected a static size of dimension {dim} for hard samples, got {x.desc}")
    indices = reshape(arange(count), [-1 if i == dim_index else 1 for i in range(x.rank)])
    one_hot = cast(eq(argmax(soft, dim_index, True), indices), x.dtype)
    return add(sub(one_hot, dispatch("stop_gradient", soft)), soft)
