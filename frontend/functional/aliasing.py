"""Aliasing of results: whether a result shares the memory of an operand.

`ALIASES` names the functions whose results may be updated with an operand, as PyTorch documents; results of other
functions never share memory, whatever the function folds to. `separated` enforces this rule.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from oneflow.frontend.core.arrays import is_expanded
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch
from oneflow.frontend.core.errors import fail, refuse
from oneflow.frontend.core.promotion import kind_of
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import MODE
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.functional.rules import cast

__all__ = ["clone"]


class Alias(Enum):
    """The memory that the result of a function shares with its operand."""

    #: The operand's memory, always.
    VIEW = "view"
    #: The operand's memory where the operand already has the requested form, else new memory.
    MAYBE = "maybe"
    #: No memory: new memory.
    COPY = "copy"


_VIEWS = """
    as_strided broadcast_tensors broadcast_to chunk diagonal dsplit empty_strided expand expand_as hsplit imag
    meshgrid moveaxis movedim narrow permute real select slice split squeeze swapaxes swapdims t tensor_split
    transpose unbind unsqueeze view_as_complex view_as_real vsplit
""".split()
#: `getitem` copies where the index has positions or masks; dropout returns its operand where no element is dropped,
#: `conj` a tensor of real numbers, and `einsum` of one operand a view where nothing is summed.
_MAYBE = """
    atleast_1d atleast_2d atleast_3d cast conj conj_physical dropout dropout1d dropout2d dropout3d einsum flatten
    getitem reshape reshape_as slice_update to view
""".split()

#: The functions that are no copies.
ALIASES = dict.fromkeys(_VIEWS, Alias.VIEW) | dict.fromkeys(_MAYBE, Alias.MAYBE)


def clone(x: Any) -> Tensor:
    """A copy in new memory; gradients flow through."""
    x = as_tensor(x)
    if isinstance(x, EagerTensor) and current_builder().eager and not (MODE.recording and x.requires_grad):
        return wrapped(x.storage.copy())
    return dispatch("cast", x, dtype=x.dtype)


def alias_of(name: str, function: Callable[..., Any]) -> Alias:
    """The aliasing of a function's result; a function with `inplace` may return its operand."""
    updates = inspect.isfunction(function) and "inplace" in inspect.signature(function).parameters
    return ALIASES.get(name, Alias.MAYBE if updates else Alias.COPY)


def separated(function: Callable[..., Any], further: Mapping[str, str]) -> Callable[..., Any]:
    """A function whose results are copied where they would share memory with an operand, and which takes arguments by
    `further` names of its parameters too. With `out`, a tensor or a tuple of tensors for several results, the results
    are written there.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return call_by_names(args, **kwargs)
        result = function(*args)
        if type(result) is not EagerTensor or result.view_meta is not None:
            return _separate(result, args)
        for operand in args:  # `_separate` inlined
            if operand is result:
                return clone(result)
        return result

    def call_by_names(args: Sequence[Any], /, *, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **{further.get(name, name): value for name, value in kwargs.items()})
        if out is not None:
            return _written(function.__name__, out, result)
        return _separate(result, (*args, *kwargs.values()))

    return call


def _written(name: str, out: Any, result: Any) -> Any:
    """The tensors `out`, with the values of a result.

    Raises:
        OneFlowError: the shapes or element types of `out` cannot hold the values.
        RuntimeError: a gradient would flow to `out`.
    """
    if isinstance(result, tuple) and isinstance(out, (tuple, list)) and len(out) == len(result):
        parts = [_written(name, target, part) for target, part in zip(out, result, strict=True)]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if not isinstance(out, Tensor) or not isinstance(result, Tensor):
        raise fail(f"expected out of {name} to be a tensor, or a tuple of one for each result, got {out!r}")
    if out.desc.shape != result.desc.shape or kind_of(result.dtype) > kind_of(out.dtype):
        raise fail(f"expected out of {name} to take {result.desc}, got {out.desc}")
    if current_builder().eager and MODE.recording and (result.requires_grad or out.requires_grad):
        raise refuse(
            f"expected no gradient through out of {name}; write within flow.no_grad(), or x = flow.{name}(..)"
        )
    current_builder().assign(out, cast(result, out.dtype), name)
    return out


def _separate(result: Any, operands: Iterable[Any]) -> Any:
    if isinstance(result, Tensor):
        for operand in operands:
            if result is operand:
                return clone(result)
        # A view has a copy of its elements, unless these are expanded and many; the result without the link to its
        # root is that copy.
        if type(result) is not EagerTensor or result.view_meta is not None:
            current_builder().unrecord_view(result)
        if type(result) is EagerTensor and is_expanded(result.handle.handle):
            return clone(result)
    elif isinstance(result, tuple) and any(isinstance(part, Tensor) for part in result):
        parts = [_separate(part, operands) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return result
