"""The error for an input that reaches the results through integers alone: it names the path.

The entries are the entries of `reverse`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oneflow.dialect.builder import Value
from oneflow.dialect.elementwise import flat_gradient
from oneflow.dialect.record import Call, flatten, zero_grad
from oneflow.dialect.reverse import Entry, NotDifferentiable, Seeds, Segment, name_of, shortened


def refuse_integers(
    entries: Sequence[Entry], seeds: Seeds, wrt: Sequence[Value], grads: Sequence[Value | None]
) -> None:
    """Checks that no path leads from an input without a gradient to a value with a cotangent.

    Raises:
        NotDifferentiable: every path from an input leads through integers or bools, which have no gradient.
    """
    for index, (value, grad) in enumerate(zip(wrt, grads, strict=True)):
        if grad is None:
            _refuse_integers(list(_flat(entries)), [v for v, _ in seeds], value, index)


def _refuse_integers(entries: Sequence[Entry], targets: Sequence[Value], start: Value, index: int) -> None:
    reached: dict[int, tuple[Entry, Value]] = {}
    for entry in entries:
        sources = [v for v in _read(entry) if v is start or id(v) in reached]
        if sources and not _is_flat(entry) and not _only_chooses(entry, sources):
            reached.update((id(r), (entry, sources[0])) for r in entry.results if id(r) not in reached)
    at = next((v for v in targets if id(v) in reached), None)
    path_back: list[tuple[Entry, Value]] = []
    while at is not None and at is not start:
        entry, source = reached[id(at)]
        path_back.append((entry, at))
        at = source
    culprit = next(((e, v) for e, v in reversed(path_back) if not v.dtype.is_inexact), None)
    if culprit is not None:
        names = filter(None, (name_of(e) for e, _ in reversed(path_back)))
        path = [f"input {index}", *names, "result"]
        raise NotDifferentiable(
            f"{name_of(culprit[0])} gives {culprit[1].dtype.mlir}, which has no gradient, and every path from input"
            f" {index} leads through integers: {shortened(path)}; leave the input out, or stop its gradient before",
            culprit[0],
        )


def _flat(entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries, segments replaced by their own entries."""
    for entry in entries:
        yield from _flat(entry.entries) if isinstance(entry, Segment) else (entry,)


def _is_flat(entry: Entry) -> bool:
    """Whether the gradient is zero: the results are constant, or a step function of the operands."""
    return isinstance(entry, Call) and entry.record.grad in (zero_grad, flat_gradient)


def _read(entry: Entry) -> Iterable[Value]:
    """The operands of which more than the shape is read."""
    if not isinstance(entry, Call):
        return entry.operands
    return flatten(v for name, v in entry.inputs.items() if name not in entry.record.shapes_of)


def _only_chooses(entry: Entry, sources: Sequence[Value]) -> bool:
    """Whether `sources` are only conditions or positions of an operator on floats: a step function of them."""
    return any(v.dtype.is_inexact for v in _read(entry)) and not any(v.dtype.is_inexact for v in sources)
