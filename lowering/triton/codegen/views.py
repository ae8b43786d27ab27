"""Tensors as strided views of the memory of other tensors.

    transpose(reshape(x, [B, T, H, D]), [0, 2, 1, 3])   sizes [B, H, T, D], strides [T*H*D, D, H*D, 1] in x

Whether an operator only moves elements follows from its compute slot, so that no operator is named here.
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
from oneflow.lowering.linalg.operand_maps import evaluate
from oneflow.lowering.linalg.sizes import static_size
from oneflow.lowering.targets.instructions import TMA

#: Kinds of nodes of affine positions.
AFFINE = frozenset("const index add sub neg mul".split())


@dataclass(frozen=True)
class View:
    """Element (i, j, ..) of a tensor of `shape` is element `first + i * strides[0] + ..` of another tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0

    @staticmethod
    def contiguous(shape: Sequence[int]) -> View:
        """The identity view of a contiguous tensor."""
        return View(tuple(shape), tuple(math.prod(shape[i + 1 :]) for i in range(len(shape))))

    @property
    def order(self) -> list[int]:
        """The dimensions by descending stride."""
        return sorted(range(len(self.shape)), key=lambda i: -self.strides[i])

    def permuted(self, perm: Sequence[int]) -> View:
        """The view whose dimension i is dimension `perm[i]` of this view."""
        return View(tuple(self.shape[p] for p in perm), tuple(self.strides[p] for p in perm), self.first)

    def read(self, shape: Sequence[int], positions: Sequence[tuple[int, Sequence[int]]]) -> View:
        """The view of `shape` whose elements are elements of this view at affine positions.

        `positions` has the start and the step along each new dimension, for each dimension of this view.
        """
        pairs = list(zip(self.strides, positions, strict=True))
        strides = [sum(stride * steps[i] for stride, (_, steps) in pairs) for i in range(len(shape))]
        return View(tuple(shape), tuple(strides), self.first + sum(stride * start for stride, (start, _) in pairs))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in row-major order under `shape`; None where that has no strides."""
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
        """Size and stride of the maximal groups of dimensions that collapse to one stride."""
        runs: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if runs and runs[-1][1] == size * stride:
                runs[-1] = (runs[-1][0] * size, stride)
            elif size > 1:
                runs.append((size, stride))
        return runs

    def covers(self, count: int) -> bool:
        """Whether the view has all of `count` elements, each once."""
        flat = self.permuted(self.order).reshaped((count,)) if math.prod(self.shape) == count else None
        return flat == View.contiguous((count,))

    def is_vectorizable(self, width: int) -> bool:
        """Whether rows of elements of `width` bytes are contiguous, aligned vectors, as descriptors require."""
        *outer, last = zip(self.shape, self.strides, strict=True)
        strides = [stride for size, stride in outer if size > 1]
        aligned = all(n * width % TMA.alignment_bytes == 0 for n in (*strides, last[0], self.first))
        return aligned and last[1] == 1 and all(n > 0 for n in strides)

    def is_leading_row(self, kept: Sequence[int]) -> bool:
        """Whether the elements along the dimensions `kept` are the first elements of the tensor, contiguous."""
        permuted = self.permuted(kept)
        count = math.prod(permuted.shape)
        return not self.first and permuted.reshaped((count,)) == View((count,), (1,))

    @property
    def normalized(self) -> View:
        """The same view; the dimensions of size 1 get one stride, larger than all others, which moves no element."""
        past = max((n * size for n, size in zip(self.strides, self.shape, strict=True) if size > 1), default=1)
        strides = (past if size == 1 else n for n, size in zip(self.strides, self.shape, strict=True))
        return View(self.shape, tuple(strides), self.first)


#: The view of an operator's result by the view of its operand.
Step = Callable[[View], View | None]


class Views:
    """Finds the roots of views of static sizes; `looked_through` are the results of the operators between."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.looked_through: set[ir.Value] = set()

    def sources(self, value: ir.Value) -> Iterator[tuple[ir.Value, View]]:
        """The tensors that a tensor is a view of, the nearest first."""
        steps: list[Step] = []
        while not isinstance(value, ir.BlockArgument):
            step = self._step(value)
            if step is None:
                return
            value = step[0]
            steps.append(step[1])
            view = _through(reversed(steps), View.contiguous(tuple(value.type.shape)))
            if view is None:
                return
            yield value, view

    def uses(self, value: ir.Value) -> Iterator[tuple[ir.Value, View]]:
        """The tensors that are views of a tensor."""
        views = [(value, View.contiguous(tuple(value.type.shape)))]
        for source, view in views:
            for op in dict.fromkeys(use.owner.operation for use in source.uses):
                step = self._step(op.results[0]) if len(op.results) == 1 else None
                composed = step[1](view) if step is not None and step[0] == source else None
                views += [] if composed is None else [(op.results[0], composed)]
        yield from views[1:]

    def erase_unused(self, module: ir.Module) -> None:
        """Erases the operations that were looked through and have no uses left."""
        ops: list[ir.Operation] = []
        dialect.walk(module.operation, ops.append)
        for op in reversed(ops):
            was_looked_through = any(r in self.looked_through for r in op.results)
            if was_looked_through and not any(True for r in op.results for _ in r.uses):
                op.erase()

    def _step(self, value: ir.Value) -> tuple[ir.Value, Step] | None:
        """The operand that a tensor is a view of, with the step between; None where the tensor is no view."""
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
        source = _steps(stage)
        if source is None:
            return None
        self.looked_through.add(value)
        return op.operands[source[0]], lambda view: _through(source[1], view)


def _is_static(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape and 0 not in kind.shape


def _through(steps: Iterable[Step], view: View | None) -> View | None:
    for step in steps:
        view = step(view) if view is not None else None
    return view


def _steps(stage: c.Stage) -> tuple[int, list[Step]] | None:
    """The index of the operand that a stage is a view of, with the steps between; None where the stage is no
    view.
    """
    steps: list[Step] = []
    while not isinstance(stage, c.Input):
        read = _reshape(stage) if isinstance(stage, c.Reshape) else _read(stage)
        if read is None:
            return None
        stage = read[0]
        steps.insert(0, read[1])
    return stage.index, steps


def _reshape(stage: c.Reshape) -> tuple[c.Stage, Step]:
    shape = _static(stage.shape)
    return stage.source, lambda view: view.reshaped(shape)


def _read(stage: c.Stage) -> tuple[c.Stage, Step] | None:
    """The source and step of an element-wise stage that reads another at affine positions."""
    load = _loaded(stage) if isinstance(stage, c.ElementWise) else None
    if load is None or not isinstance(stage, c.ElementWise):
        return None
    positions = [_affine(p, stage.positions) for p in load.args]
    affine = [p for p in positions if p is not None]
    shape = _static(stage.shape)
    return (load.value, lambda view: view.read(shape, affine)) if len(affine) == len(positions) else None


def _static(shape: Sequence[c.Size]) -> tuple[int, ...]:
    sizes = tuple(n for n in map(static_size, shape) if n is not None)
    assert len(sizes) == len(shape), "a view of dynamic sizes"
    return sizes


def _loaded(stage: c.ElementWise) -> Expr | None:
    """The element that a body returns unchanged; 16-bit floats may be widened and narrowed again."""
    body = stage.body
    while body.kind == "cast" and body.dtype in (stage.dtype, stage.dtype.accumulator):
        body = body.args[0]
    return body if body.kind == "load" and body.dtype == stage.dtype else None


def _affine(position: Expr, loops: Sequence[Expr]) -> tuple[int, list[int]] | None:
    """The start of a position and its step for each loop; None where the position is not affine in the loops."""
    nodes = s.walk([position])
    products = [n for n in nodes if n.kind == "mul"]
    if any(n.kind not in AFFINE for n in nodes) or not all(any(a.kind == "const" for a in n.args) for n in products):
        return None
    at = dict.fromkeys(map(id, loops), 0)
    first = evaluate(position, at)
    return first, [evaluate(position, {**at, id(loop): 1}) - first for loop in loops]
