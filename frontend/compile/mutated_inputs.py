"""Mutated inputs: arguments that a compiled function updates, the checks on mutated inputs, and new values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.frontend.core.arrays import Data, overwrite
from oneflow.frontend.core.errors import CallError, refuse, user_location
from oneflow.frontend.eager.regions import Region, region_in, region_of
from oneflow.frontend.eager.tape import MODE, no_grad
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.tracing.traced import Traced
from oneflow.runtime.spans import overlap


def check(traced: Traced, arguments: Sequence[Any], arrays: Sequence[Data], name: str) -> None:
    """Checks the arguments of a call that updates arguments.

    Raises:
        RuntimeError: one requires grad, or the call is recorded for gradients.
        CallError: an updated argument is not writable, or shares memory with another tensor that the call reads.
    """
    outside = [c for c in traced.captured if isinstance(c, EagerTensor)]
    is_recorded = bool(traced.activity) and not traced.effects.sets_leaves
    if MODE.recording and (is_recorded or any(isinstance(x, EagerTensor) and x.requires_grad for x in arguments)):
        raise refuse(
            f"{name} updates arguments in place, and a gradient flows to its operands: call the function "
            "within flow.no_grad(), or compute the result from x.clone()"
        )
    for index in traced.effects.mutated_indices:
        array, path = arrays[index], traced.names[index]
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise CallError(
                f"{name}: expected argument {path} to be writable, since the function updates the argument",
                user_location(),
            )
        others = [x for i, x in enumerate(zip(arguments, arrays, strict=True)) if i != index]
        if any(_share_elements(arguments[index], array, x) for x in (*others, *((t, None) for t in outside))):
            raise CallError(
                f"{name}: expected argument {path}, which the function updates, not to share memory with other "
                f"inputs; pass {path}.clone()",
                user_location(),
            )


def _share_elements(argument: Any, array: Data, other: tuple[Any, Any]) -> bool:
    """Whether an argument shares elements with another input."""
    own, region = _region(argument, array), _region(*other)
    return overlap(own.span, region.span) and own.overlaps(region)


def _region(argument: Any, array: Any) -> Region:
    return region_of(argument) if isinstance(argument, EagerTensor) else region_in(array)


def current_array(argument: Any, array: Data) -> Data:
    """The array of an argument at the time of the run: another thread may have updated the tensor of which the
    argument is a view.
    """
    return argument.storage if isinstance(argument, EagerTensor) and argument.is_view() else array


def write_back(argument: Any, array: Data, result: Data, writer: str) -> None:
    """Writes the new values of an argument into the memory of the argument."""
    if isinstance(argument, EagerTensor):
        with no_grad():
            BUILDER.assign(argument, wrapped(result), writer)
    elif result is not array:
        overwrite(array, result)
