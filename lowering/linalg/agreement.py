"""Which unknown sizes of an operator's operands have to be equal, found out by asking its types.

Types refuse static sizes that do not fit; what they would say of sizes that are only known at run time has to be
checked then. The rule is asked with numbers: all unknown sizes alike, then some of them others. Imports `record`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from oneflow.dialect.record import Call, OperatorError, flatten, infer
from oneflow.dialect.tensor_desc import TensorDesc

#: A dimension of an operand: the numbers of both.
Dimension: TypeAlias = tuple[int, int]
#: The size that all have at first, and those that are tried in its place: a size that fits by chance fits once.
_ALIKE, _OTHERS = 12, (13, 24)
#: The most dimensions that have to be alike together, and that calls have which are asked about.
_TOGETHER, _MOST = 3, 12


def equal_sizes(call: Call) -> list[tuple[Dimension, ...]]:
    """The groups of dimensions whose sizes the types of a call on descriptions want to be equal."""
    descs = flatten(call.inputs.values())
    unknown = [(n, a) for n, d in enumerate(descs) for a, size in enumerate(d.shape or ()) if size is None]
    if not unknown or len(unknown) > _MOST or not _fits(call, descs, {}):
        return []
    bound = [d for d in unknown if not any(_fits(call, descs, {d: size}) for size in _OTHERS)]
    return list(_groups(call, descs, bound))


def _groups(call: Call, descs: Sequence[TensorDesc], bound: Sequence[Dimension]) -> Iterator[tuple[Dimension, ...]]:
    """The smallest sets of dimensions of different operands that may change together.

    A dimension of several sets is bound in another way, as in the number of elements.
    """
    found: list[tuple[Dimension, ...]] = []
    for count in range(2, min(_TOGETHER, len(bound)) + 1):
        for group in itertools.combinations(bound, count):
            larger = any(set(smaller) <= set(group) for smaller in found)
            if larger or len({number for number, _ in group}) < count:
                continue
            if all(_fits(call, descs, dict.fromkeys(group, size)) for size in _OTHERS):
                found.append(group)
    for group in found:
        if not any(other is not group and set(other) & set(group) for other in found):
            yield group


def _fits(call: Call, descs: Sequence[TensorDesc], sizes: Mapping[Dimension, int]) -> bool:
    """Whether types allow the call when unknown sizes are alike but for those of `sizes`."""
    stated = iter([_stated(number, desc, sizes) for number, desc in enumerate(descs)])
    inputs = {name: _placed(operand, stated) for name, operand in call.inputs.items()}
    try:
        infer(call.record, Call(call.record, inputs, call.attrs))
    except OperatorError:
        return False
    return True


def _stated(number: int, desc: TensorDesc, sizes: Mapping[Dimension, int]) -> TensorDesc:
    known = (sizes.get((number, a), _ALIKE) if d is None else d for a, d in enumerate(desc.shape or ()))
    return TensorDesc(tuple(known), desc.dtype)


def _placed(operand: Any, stated: Iterator[TensorDesc]) -> Any:
    if isinstance(operand, tuple):
        return tuple(next(stated) for _ in operand)
    return None if operand is None else next(stated)
