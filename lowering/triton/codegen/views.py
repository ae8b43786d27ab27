"""Tensors as views: elements of another tensor, in its memory, by a stride for each dimension.

    transpose(reshape(x, [B, T, H, D]), [0, 2, 1, 3])   sizes [B, H, T, D], strides [T*H*D, D, H*D, 1] in x

What moves elements is told by its compute slot, so that no operator is named here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from oneflow.dialect import compute as c
from oneflow.dialect import oneflow as dialect
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.meaning import input_stages, stages
from oneflow.dialect.record import Registry
from oneflow.dialect.scalar import Expr
from oneflow.dialect.tensor_desc import from_mlir
from oneflow.lowering.linalg.external import is_external
from oneflow.lowering.linalg.generic import evaluate

#: What positions of a view are made of, and the bytes that vectors and descriptors want distances to be multiples of.
LINEAR = frozenset("const index add sub neg mul".split())
ALIGNMENT = 16


@dataclass(frozen=True)
class View:
    """Element (i, j, ..) of a tensor of `shape` is number `first + i * strides[0] + ..` of another's."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0

    @staticmethod
    def contiguous(shape: Sequence[int]) -> View:
        """A contiguous tensor in its own memory."""
        return View(tuple(shape), tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))

    @property
    def order(self) -> list[int]:
        """The dimensions as they lie in memory, the closest elements last."""
        return sorted(range(len(self.shape)), key=lambda i: -self.strides[i])

    def permuted(self, perm: Sequence[int]) -> View:
        """Dimension i is `perm[i]` of this."""
        return View(tuple(self.shape[p] for p in perm), tuple(self.strides[p] for p in perm), self.first)

    def read(self, shape: Sequence[int], positions: Sequence[tuple[int, Sequence[int]]]) -> View:
        """Element (i, j, ..) is this one's at `positions`: for each dimension where it begins and its steps."""
        walked = list(zip(self.strides, positions, strict=True))
        strides = [sum(stride * steps[i] for stride, (_, steps) in walked) for i in range(len(shape))]
        return View(tuple(shape), tuple(strides), self.first + sum(stride * start for stride, (start, _) in walked))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in row-major order under `shape`; None where no strides say that."""
        runs, strides = self._runs(), []
        size, stride = 1, 1
        for wanted in reversed(shape):
            if wanted > 1 and size == 1:
                size, stride = runs.pop()
            if size % wanted:
                return None
            strides.append(stride)
            size, stride = size // wanted, stride * wanted
        return View(tuple(shape), tuple(reversed(strides)), self.first)

    def _runs(self) -> list[tuple[int, int]]:
        """Size and stride of the longest parts that one stride walks through."""
        runs: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if runs and runs[-1][1] == size * stride:
                runs[-1] = (runs[-1][0] * size, stride)
            elif size > 1:
                runs.append((size, stride))
        return runs

    def covers(self, count: int) -> bool:
        """Whether these are all of `count` elements, each once."""
        flat = self.permuted(self.order).reshaped((count,)) if math.prod(self.shape) == count else None
        return flat == View.contiguous((count,))

    def is_vectorizable(self, width: int) -> bool:
        """Whether the last dimension is whole vectors of elements of `width` bytes: what descriptors take."""
        *outer, last = zip(self.shape, self.strides, strict=True)
        apart = [stride for size, stride in outer if size > 1]
        aligned = all(n > 0 and n * width % ALIGNMENT == 0 for n in apart)
        return aligned and last[1] == 1 and last[0] * width % ALIGNMENT == 0 and self.first * width % ALIGNMENT == 0

    def is_leading_row(self, kept: Sequence[int]) -> bool:
        """Whether the elements along `kept` are neighbours, the first ones of the tensor."""
        seen = self.permuted(kept)
        count = math.prod(seen.shape)
        return not self.first and seen.reshaped((count,)) == View((count,), (1,))

    @property
    def normalized(self) -> View:
        """The same, with the stride of dimensions of size 1, which no element depends on, past all others."""
        past = max((n * size for n, size in zip(self.strides, self.shape, strict=True) if size > 1), default=1)
        strides = (past if size == 1 else n for n, size in zip(self.strides, self.shape, strict=True))
        return View(self.shape, tuple(strides), self.first)


#: What a view does to that of what it looks at.
Step = Callable[[View], View | None]


class Views:
    """What tensors of known sizes are views of; `looked_through` are the tensors that were looked through."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.looked_through: set[ir.Value] = set()

    def sources(self, value: ir.Value) -> Iterator[tuple[ir.Value, View]]:
        """What a tensor is a view of, the nearest first."""
        steps: list[Step] = []
        while not isinstance(value, ir.BlockArgument):
            found = self._step(value)
            if found is None:
                return
            value = found[0]
            steps.append(found[1])
            view = _through(reversed(steps), View.contiguous(tuple(value.type.shape)))
            if view is None:
                return
            yield value, view

    def uses(self, value: ir.Value) -> Iterator[tuple[ir.Value, View]]:
        """The tensors that are views of one."""
        found = [(value, View.contiguous(tuple(value.type.shape)))]
        for source, view in found:
            for op in dict.fromkeys(use.owner.operation for use in source.uses):
                step = self._step(op.results[0]) if len(op.results) == 1 else None
                seen = step[1](view) if step is not None and step[0] == source else None
                found += [] if seen is None else [(op.results[0], seen)]
        yield from found[1:]

    def erase_unused(self, module: ir.Module) -> None:
        """Erases operations that were looked through and are used no more."""
        found: list[ir.Operation] = []
        dialect.walk(module.operation, found.append)
        for op in reversed(found):
            was_looked_through = any(r in self.looked_through for r in op.results)
            if was_looked_through and not any(True for r in op.results for _ in r.uses):
                op.erase()

    def _step(self, value: ir.Value) -> tuple[ir.Value, Step] | None:
        """The operand that a tensor is a view of, and what the view does; None for all else."""
        op = value.owner
        if not dialect.is_oneflow(op) or not all(_is_static(v.type) for v in (*op.operands, *op.results)):
            return None
        record = dialect.record_of(op, self.registry)
        if "barrier" in record.traits or (record.compute is None and record.scalar is None):
            return None
        call = input_stages(dialect.operand_call(op, record, lambda v: from_mlir(v.type)))
        if is_external(call):
            return None
        stage = stages(call, [d for r in op.results if (d := from_mlir(r.type)) is not None])[
            list(op.results).index(value)
        ]
        found = _steps(stage)
        if found is None:
            return None
        self.looked_through.add(value)
        return op.operands[found[0]], lambda view: _through(found[1], view)


def _is_static(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape and 0 not in kind.shape


def _through(steps: Iterable[Step], view: View | None) -> View | None:
    for step in steps:
        view = step(view) if view is not None else None
    return view


def _steps(stage: c.Stage) -> tuple[int, list[Step]] | None:
    """The number of the operand that a stage only looks at, and how; None where it does more."""
    steps: list[Step] = []
    while not isinstance(stage, c.Input):
        found = _reshape(stage) if isinstance(stage, c.Reshape) else _read(stage)
        if found is None:
            return None
        stage = found[0]
        steps.insert(0, found[1])
    return stage.number, steps


def _reshape(stage: c.Reshape) -> tuple[c.Stage, Step]:
    shape = tuple(int(n) for n in stage.shape)  # type: ignore[arg-type]
    return stage.source, lambda view: view.reshaped(shape)


def _read(stage: c.Stage) -> tuple[c.Stage, Step] | None:
    """An element-wise stage whose elements are others' at linear positions."""
    load = _loaded(stage) if isinstance(stage, c.ElementWise) else None
    if load is None or not isinstance(stage, c.ElementWise):
        return None
    positions = [_linear(p, stage.positions) for p in load.args]
    known = [p for p in positions if p is not None]
    shape = tuple(int(n) for n in stage.shape)  # type: ignore[arg-type]
    return (load.value, lambda view: view.read(shape, known)) if len(known) == len(positions) else None


def _loaded(stage: c.ElementWise) -> Expr | None:
    """The element that a body gives as it is; 16-bit floats become wider and are made narrow again."""
    body = stage.body
    while body.kind == "cast" and body.dtype in (stage.dtype, stage.dtype.accumulator):
        body = body.args[0]
    return body if body.kind == "load" and body.dtype == stage.dtype else None


def _linear(position: Expr, loops: Sequence[Expr]) -> tuple[int, list[int]] | None:
    """Where a position begins and its step for each loop; None where it is not linear in the loops."""
    nodes = s.walk([position])
    products = [n for n in nodes if n.kind == "mul"]
    if any(n.kind not in LINEAR for n in nodes) or not all(any(a.kind == "const" for a in n.args) for n in products):
        return None
    at = dict.fromkeys(map(id, loops), 0)
    first = evaluate(position, at)
    return first, [evaluate(position, {**at, id(loop): 1}) - first for loop in loops]
