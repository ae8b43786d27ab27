"""The stages of one operator call as tensor values, and the builder that the rules of primitives use.

A stage becomes one value, however often it is read. `StageBuilder.generic` builds all loop nests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect._mlir import ir, linalg
from oneflow.dialect.compute import Stage
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import Call
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg.bodies import Body, Context, dependent_nodes
from oneflow.lowering.linalg.checks import SHARED_DIMENSION, Checks
from oneflow.lowering.linalg.emit import Emitter, Value
from oneflow.lowering.linalg.hoist_checks import hoist_checks
from oneflow.lowering.linalg.operand_maps import IterationDomain, OperandMaps, find_operands, upper_bound
from oneflow.lowering.linalg.sizes import Shapes, Sizes, static_shape

#: A tensor that a loop nest reads or writes, and its indexing map.
Destination = tuple[Value, ir.AffineMap]
Rule = Callable[["StageBuilder", Any], Value]


class StageBuilder:
    """Builds the stages of one call on `operands`; errors call the operator `label` and its operands `names`."""

    def __init__(
        self,
        rules: Mapping[type, Rule],
        emitter: Emitter,
        shapes: Shapes,
        checks: Checks,
        operands: Sequence[Value],
        names: Sequence[str],
        label: str,
    ) -> None:
        self.rules, self.e, self.shapes, self.checks = rules, emitter, shapes, checks
        self.operands, self.names, self.label = operands, names, label
        self.location = ir.Location.current
        self.sizes = Sizes(shapes, operands, self.check_at_least)
        self.context = Context(emitter, shapes.scalars, checks, self.sizes, self.tensor, self.location)
        self.reductions: dict[int, Sequence[Value]] = {}
        self._values: dict[int, tuple[Stage, Value]] = {}

    def tensor(self, stage: Stage) -> Value:
        """The value of a stage, built at the insertion point of its first use."""
        if isinstance(stage, c.Input):
            return self.operands[stage.index]
        if id(stage) not in self._values:
            value = self.rules[type(stage)](self, stage)
            self._values[id(stage)] = (stage, value)
            self.shapes.remember(value, self.sizes.extents(stage.shape))
        return self._values[id(stage)][1]

    def empty(self, shape: Sequence[c.Size], dtype: DType) -> Value:
        """A `tensor.empty`."""
        dims = static_shape(shape)
        sizes = self.sizes.values([x for x, d in zip(shape, dims, strict=True) if d is None])
        return self.e.op("tensor.empty", self.e.tensor(dims, dtype), sizes)

    def fill(self, out: Value, value: Expr) -> Value:
        """A `linalg.fill` of `out`."""
        (scalar,) = Body(self.context, [value]).write([value])
        segments = {"operandSegmentSizes": self.e.attribute("array<i32: 1, 1>")}
        filled = ir.Operation.create(
            "linalg.fill", results=[out.type], operands=[scalar, out], attributes=segments, regions=1
        )
        linalg.fill_builtin_region(filled)
        return filled.result

    def generic(
        self,
        domain: IterationDomain,
        bodies: Sequence[Expr],
        outs: Sequence[Destination],
        accumulators: Sequence[Expr] = (),
        *,
        associative: bool = False,
    ) -> list[Value]:
        """A `linalg.generic` that writes `bodies` to `outs`.

        `accumulators` are the nodes of bodies for elements of `outs`; with `associative`, operations on these may be
        reassociated.
        """
        bodies = hoist_checks(domain.positions, domain.extents, bodies)
        found = find_operands(domain, bodies, self.sizes)
        self._check(domain, found)
        ins = [(self.tensor(stage), indexing) for stage, indexing in found.operands]
        ins += self._shape_operand(domain, [m for _, m in (*ins, *outs)])
        reassociable = dependent_nodes(bodies, accumulators) if associative else frozenset()
        positions = {id(p): loop for loop, p in enumerate(domain.positions)}
        body = Body(self.context, bodies, [*found.operand_of, *map(id, accumulators)], positions, reassociable)
        created = self._create(domain, ins, outs)
        block = created.regions[0].blocks[0]
        results = list(block.arguments)[len(ins) :]
        bound = {load: block.arguments[operand] for load, operand in found.operand_of.items()}
        bound |= {id(a): value for a, value in zip(accumulators, results, strict=False)}
        with ir.InsertionPoint(block):
            ir.Operation.create("linalg.yield", operands=body.write(bodies, bound))
        return list(created.results)

    def _create(
        self, domain: IterationDomain, ins: Sequence[Destination], outs: Sequence[Destination]
    ) -> ir.Operation:
        values = [value for value, _ in (*ins, *outs)]
        kinds = ["reduction" if i in domain.reductions else "parallel" for i in range(domain.rank)]
        iterators = [self.e.attribute(f"#linalg.iterator_type<{kind}>") for kind in kinds]
        attributes = {
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for _, m in (*ins, *outs)]),
            "iterator_types": ir.ArrayAttr.get(iterators),
            "operandSegmentSizes": self.e.attribute(f"array<i32: {len(ins)}, {len(outs)}>"),
        }
        results = [value.type for value, _ in outs]
        created = ir.Operation.create(
            "linalg.generic", results=results, operands=values, attributes=attributes, regions=1
        )
        elements = [value.type.element_type for value in values]
        created.regions[0].blocks.append(*elements, arg_locs=[self.location] * len(elements))
        return created

    def _shape_operand(self, domain: IterationDomain, maps: Sequence[ir.AffineMap]) -> list[Destination]:
        """An unread operand whose dimensions are the loops that no other operand has as dimensions."""
        unmapped = domain.loops_without_extent(maps)
        if not unmapped:
            return []
        return [(self.empty([domain.extents[i] for i in unmapped], dtypes.float32), domain.select(unmapped))]

    def _check(self, domain: IterationDomain, found: OperandMaps) -> None:
        for load, dim, loop in found.equal_sizes:
            what = self._dimension(load, dim) + ("" if domain.reductions else SHARED_DIMENSION)
            self.check_equal(load.value.shape[dim], domain.extents[loop], what)
        for load, dim in found.in_bounds:
            last = upper_bound(load.args[dim], domain)
            if last is not None:
                what = f"{self._dimension(load, dim)}, which is too small"
                self.check_at_least(load.value.shape[dim], last + 1, what)

    def check_equal(self, got: c.Size, wanted: c.Size, text: str) -> None:
        """Fails the run where two sizes differ; writes no check where they are known to be equal."""
        if self.sizes.extent(got) != self.sizes.extent(wanted):
            sizes = self.sizes.values([got, wanted])
            self.checks.size(sizes[0], sizes[1], f"{self.label}: {text}", self.location)

    def check_at_least(self, size: c.Size, least: c.Size, text: str) -> None:
        """Fails the run where `size` is less than `least`; writes no check where it is known not to be."""
        got, wanted = self.sizes.extents([size, least])
        if got == wanted or (isinstance(got, int) and isinstance(wanted, int) and got >= wanted):
            return
        limits = [self.shapes.value(got), self.shapes.value(wanted)]
        self.checks.size(self.shapes.minimum(*limits), limits[1], f"{self.label}: {text}", self.location)

    def _dimension(self, load: Expr, dim: int) -> str:
        stage = load.value
        name = self.names[stage.index] if isinstance(stage, c.Input) else "an intermediate result"
        return f"dimension {dim} of {name}"


def operand_names(call: Call) -> list[str]:
    """The names of a call's operands in errors, one for each operand that there is."""
    names: list[str] = []
    for name, operand in call.inputs.items():
        if isinstance(operand, tuple):
            names += [f"{name}[{i}]" for i in range(len(operand))]
        elif operand is not None:
            names.append(name)
    return names
