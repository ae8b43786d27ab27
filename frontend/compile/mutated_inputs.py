"""Arguments that a compiled function updates: what is refused of them, and how they get their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneflow.frontend.core.arrays import Data, overwrite
from oneflow.frontend.core.errors import CallError, refuse, user_place
from oneflow.frontend.eager.regions import Region, region_in, region_of
from oneflow.frontend.eager.tape import MODE, no_grad
from oneflow.frontend.eager.tensor import BUILDER, EagerTensor, wrapped
from oneflow.frontend.tracing.traced import Traced
from oneflow.runtime.spans import overlap


def check(traced: Traced, given: Sequence[Any], arrays: Sequence[Data], name: str) -> None:
    """Looks at arguments before a call updates some of them.

    Raises:
        RuntimeError: one requires grad, or the call is recorded for gradients.
        CallError: one that is updated is not writable, or in the memory of another tensor that the call reads.
    """
    outside = [c for c in traced.captured if isinstance(c, EagerTensor)]
    is_recorded = bool(traced.reach) and not traced.effects.sets_leaves
    if MODE.recording and (is_recorded or any(isinstance(x, EagerTensor) and x.requires_grad for x in given)):
        raise refuse(
            f"{name} updates arguments in place, and a gradient flows to what it reads: call it "
            "within flow.no_grad(), or have it return what it computes of x.clone()"
        )
    for number in traced.effects.numbers:
        array, path = arrays[number], traced.names[number]
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise CallError(f"{name}: expected argument {path} to be writable, as it is updated", user_place())
        others = [x for i, x in enumerate(zip(given, arrays, strict=True)) if i != number]
        if any(_meet(given[number], array, x) for x in (*others, *((t, None) for t in outside))):
            raise CallError(
                f"{name}: expected argument {path}, which it updates, apart from all else that it reads, got one "
                f"that overlaps memory: pass {path}.clone()",
                user_place(),
            )


def _meet(given: Any, array: Data, other: tuple[Any, Any]) -> bool:
    """Whether an argument overlaps elements with something else."""
    mine, region = _region(given, array), _region(*other)
    return overlap(mine.span, region.span) and mine.meets(region)


def _region(given: Any, array: Any) -> Region:
    return region_of(given) if isinstance(given, EagerTensor) else region_in(array)


def now(given: Any, array: Data) -> Data:
    """The array of an argument when its call runs: another thread may have updated what it is a view of."""
    return given.storage if isinstance(given, EagerTensor) and given.is_view else array


def put(given: Any, array: Data, result: Data, writer: str) -> None:
    """Gives an argument its new values, in its memory."""
    if isinstance(given, EagerTensor):
        with no_grad():
            BUILDER.assign(given, wrapped(result), writer)
    elif result is not array:
        overwrite(array, result)
