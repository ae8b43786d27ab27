"""What has no gradient because every way to it leads through integers: an error that names the way.

Beside `reverse`, whose entries these are.
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
    """Checks that inputs without a gradient reach what has a cotangent by no way at all.

    Raises:
        NotDifferentiable: the only ways from an input lead through integers or bools, which have no gradient.
    """
    for number, (value, grad) in enumerate(zip(wrt, grads, strict=True)):
        if grad is None:
            _refuse_integers(list(_flat(entries)), [v for v, _ in seeds], value, number)


def _refuse_integers(entries: Sequence[Entry], targets: Sequence[Value], start: Value, number: int) -> None:
    came: dict[int, tuple[Entry, Value]] = {}
    for entry in entries:
        sources = [v for v in _read(entry) if v is start or id(v) in came]
        if sources and not _is_flat(entry) and not _only_chooses(entry, sources):
            came.update((id(r), (entry, sources[0])) for r in entry.results if id(r) not in came)
    at = next((v for v in targets if id(v) in came), None)
    way: list[tuple[Entry, Value]] = []
    while at is not None and at is not start:
        entry, source = came[id(at)]
        way.append((entry, at))
        at = source
    culprit = next(((e, v) for e, v in reversed(way) if not v.dtype.is_float), None)
    if culprit is not None:
        names = filter(None, (name_of(e) for e, _ in reversed(way)))
        path = [f"input {number}", *names, "result"]
        raise NotDifferentiable(
            f"{name_of(culprit[0])} gives {culprit[1].dtype}, which has no gradient, and every way from input"
            f" {number} leads through such: {shortened(path)}; leave the input out, or stop its gradient before",
            culprit[0],
        )


def _flat(entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries with those of segments in their place."""
    for entry in entries:
        yield from _flat(entry.entries) if isinstance(entry, Segment) else (entry,)


def _is_flat(entry: Entry) -> bool:
    """Whether the results do not depend on the operands, or in steps: then zero is the gradient."""
    return isinstance(entry, Call) and entry.record.grad in (zero_grad, flat_gradient)


def _read(entry: Entry) -> Iterable[Value]:
    """The operands of which more than the shape is read."""
    if not isinstance(entry, Call):
        return entry.operands
    return flatten(v for name, v in entry.inputs.items() if name not in entry.record.shapes_of)


def _only_chooses(entry: Entry, sources: Sequence[Value]) -> bool:
    """Whether an operator on floats chooses by `sources` alone, as conditions or positions: a step as well."""
    return any(v.dtype.is_float for v in _read(entry)) and not any(v.dtype.is_float for v in sources)
