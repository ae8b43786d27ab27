"""Checks of several short cases in one test, such as all samples of an operator: an error names its case."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oneflow.testing.sample import Sample


def by_operator(samples: Iterable[Sample]) -> Mapping[str, list[Sample]]:
    """The samples of each operator."""
    groups = dict[str, list[Sample]]()
    for sample in samples:
        groups.setdefault(sample.op, []).append(sample)
    return groups


def each(cases: Iterable[Sequence[Any]], check: Callable[..., object], *more: Any) -> None:
    """Runs a check on the arguments of each case, followed by `more`."""
    for case in cases:
        try:
            check(*case, *more)
        except Exception as error:
            error.add_note(f"in the sample {' '.join(map(str, case))}")
            raise
