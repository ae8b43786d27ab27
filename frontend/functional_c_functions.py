"""Functions of OneFlow's `_C` that have no function of the same parameters in `flow`.

    OWN["softmax_cross_entropy"](logits, labels)     # flow.softmax_cross_entropy(labels, logits)

A row of the table has the function of `flow` or the operator, and the parameters of `_C` in order. A parameter that
has another name here is written `theirs=ours`, and `theirs=` if it has no meaning here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from oneflow.dialect.record import Operator
from oneflow.frontend import functional
from oneflow.frontend.core.dispatch import as_tensor, dispatch, dispatch_all
from oneflow.frontend.core.errors import CallError
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.functional.random import random_offset
from oneflow.frontend.operators import OPS

_NORMALIZATION = "x moving_mean moving_variance gamma beta axis epsilon momentum is_training=training"
#: The values of OneFlow for attributes that an operator has other defaults for.
_NORMALIZATION_DEFAULTS = {"axis": 1, "epsilon": 1e-5, "momentum": 0.9}


def _with_parameters(function: Callable[..., Any], parameters: str, **defaults: Any) -> Callable[..., Any]:
    """A function that takes other parameters in another order."""
    pairs = [parameter.partition("=") for parameter in parameters.split()]
    names = {theirs: ours if equal else theirs for theirs, equal, ours in pairs}

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise CallError(f"expected at most {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return function(**{**defaults, **{names.get(n, n): x for n, x in given.items() if names.get(n, n)}})

    return call


def _result(number: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns one of several results."""
    return functools.wraps(function)(lambda **arguments: function(**arguments)[number])


def _matmul(
    input: Any, other: Any, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0
) -> Tensor:
    """alpha * a @ b of matrices, where a and b are `input` and `other` or their transposes."""
    a, b = (x.transpose(-2, -1) if flag else x for x, flag in ((input, transpose_a), (other, transpose_b)))
    product = functional.matmul(a, b)
    return product if alpha == 1 else product * alpha


def _triangle_softmax(
    a: Any,
    *,
    p: float = 0.5,
    diagonal: int,
    tril_scale_value: float,
    tril_fill_value: float = 0.0,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    """The softmax of the scaled lower triangle, with dropout, and without."""
    x = as_tensor(a)
    mask = dispatch("random_mask_like", x, random_offset(generator), rate=p)
    options = {"tril_scale_value": tril_scale_value, "tril_fill_value": tril_fill_value}
    scale = 1 / (1 - p) if p < 1 else 0.0
    y, softmax_y = dispatch_all(
        "fused_tril_scale_softmax_mask_scale", x, mask, diagonal=diagonal, mask_scale_value=scale, **options
    )
    return y, softmax_y


def by_position(record: Operator) -> Callable[..., Any]:
    """An operator as a function that takes operands, then attributes, by position or by name."""
    operands, attributes = len(record.signature.inputs), [a.name for a in record.signature.attrs]

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > operands + len(attributes):
            raise CallError(f"oneflow.{record.name}: expected {record.signature}, got {len(args)} arguments")
        stated = dict(zip(attributes, args[operands:], strict=False))
        return getattr(OPS, record.name)(*args[:operands], **stated, **kwargs)

    call.__name__, call.__doc__ = record.name, f"{record.signature}\n\n{record.doc}"
    return call


#: The functions by their names in `_C`.
OWN: dict[str, Callable[..., Any]] = {
    "ctc_loss": _with_parameters(
        functional.ctc_loss,
        "log_probs targets input_lengths target_lengths max_target_length= blank zero_infinity reduction",
    ),
    "embedding": _with_parameters(functional.embedding, "weight indices=input padding_idx scale_grad_by_freq"),
    "fused_mlp": _with_parameters(_result(0, OPS.cublas_fused_mlp), "x weights biases skip_final_activation"),
    "fused_scale_tril_softmax_mask_scale": _triangle_softmax,
    "gather": _with_parameters(OPS.gather, "x=in indices axis"),
    "gumbel_softmax": _with_parameters(functional.gumbel_softmax, "x=logits tau dim hard"),
    "isclose": _with_parameters(functional.isclose, "input other atol rtol equal_nan"),
    "matmul": _matmul,
    "normalization": _with_parameters(_result(0, OPS.normalization), _NORMALIZATION, **_NORMALIZATION_DEFAULTS),
    "normalize": _with_parameters(functional.normalize, "input p dim eps use_l2_norm_kernel="),
    "pixel_shuffle": _with_parameters(functional.pixel_shuffle, "input h_upscale_factor w_upscale_factor"),
    "reduce_mean": functional.mean,
    "slice": _with_parameters(OPS.slice, "x start stop step enable_view_slice="),
    "slice_update": _with_parameters(OPS.slice_update, "ref value start stop step"),
    "smooth_l1_loss": _with_parameters(functional.smooth_l1_loss, "logits=input label=target beta reduction"),
    "softmax_cross_entropy": _with_parameters(_result(1, OPS.softmax_cross_entropy), "logits=prediction label"),
    "sparse_softmax_cross_entropy": _with_parameters(functional.sparse_softmax_cross_entropy, "logits label=labels"),
    "trunc_divide": functools.partial(functional.div, rounding_mode="trunc"),
}
