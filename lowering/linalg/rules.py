"""The lowering rules from the compute algebra to linalg on tensors: one per primitive. No operator is named here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.compute import Stage
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg import reassociation
from oneflow.lowering.linalg.bodies import Body, is_uniform
from oneflow.lowering.linalg.emit import ANY_ORDER, Value, dense
from oneflow.lowering.linalg.hoist_checks import hoist_checks, substitute
from oneflow.lowering.linalg.operand_maps import IterationDomain
from oneflow.lowering.linalg.sizes import static_shape, static_size
from oneflow.lowering.linalg.stages import Rule, StageBuilder


def element_wise(builder: StageBuilder, stage: c.ElementWise) -> Value:
    """A `linalg.generic` of parallel loops; a `linalg.fill` where all elements are equal."""
    out = builder.empty(stage.shape, stage.dtype)
    if is_uniform(stage.body):
        return builder.fill(out, stage.body)
    domain = IterationDomain(stage.positions, stage.shape)
    return builder.generic(domain, [stage.body], [(out, domain.identity)])[0]


def fold(builder: StageBuilder, stage: c.Fold) -> Value:
    """One `linalg.generic` for all accumulators of the reduction, whose initial values are the outs."""
    reduction = stage.reduction
    if id(reduction) not in builder.reductions:
        builder.reductions[id(reduction)] = _reduce(builder, reduction)
    return builder.reductions[id(reduction)][stage.result]


def _reduce(builder: StageBuilder, reduction: c.Reduction) -> list[Value]:
    kept, steps = len(reduction.positions), len(reduction.steps)
    domain = IterationDomain(
        (*reduction.positions, *reduction.steps),
        (*reduction.shape, *reduction.extents),
        tuple(range(kept, kept + steps)),
    )
    inits = [c.ElementWise(reduction.shape, i.dtype, reduction.positions, i) for i in reduction.inits]
    outs = [(element_wise(builder, init), domain.select(range(kept))) for init in inits]
    return builder.generic(domain, reduction.bodies, outs, reduction.accumulators, associative=reduction.associative)


def scan(builder: StageBuilder, stage: c.Scan) -> Value:
    """A `linalg.generic` whose scanned loop is a reduction; its outs are the result and the accumulator."""
    positions = tuple(Expr("index", (), dtypes.index, i) for i in range(stage.rank))
    domain = IterationDomain(positions, stage.shape, (stage.axis,))
    rest = [i for i in range(stage.rank) if i != stage.axis]
    running = builder.fill(builder.empty([stage.shape[i] for i in rest], stage.dtype), stage.init)
    outs = [(builder.empty(stage.shape, stage.dtype), domain.identity), (running, domain.select(rest))]
    element = s.cast(Expr("load", positions, stage.x.dtype, stage.x), stage.element.dtype)
    body = substitute(stage.body, {id(stage.element): element})
    running_value = s.arg(-1, stage.dtype)
    return builder.generic(domain, [body, body], outs, [running_value, stage.accumulator])[0]


def scatter(builder: StageBuilder, stage: c.Scatter) -> Value:
    """An `scf.for` nest that carries the tensor."""
    *index, value = hoist_checks(stage.steps, stage.extents, [*stage.index, stage.body])
    body = Body(builder.context, [*index, value], [*map(id, stage.steps), id(stage.accumulator)])
    extents = builder.sizes.values(stage.extents)
    zero, one = builder.shapes.value(0), builder.shapes.value(1)

    def nest(tensor: Value, steps: tuple[Value, ...]) -> Value:
        if len(steps) < len(extents):
            bounds = [zero, extents[len(steps)], one]
            loop = _loop(builder, bounds, tensor, lambda step, carried: nest(carried, (*steps, step)))
            if stage.any_order:
                loop.owner.attributes[ANY_ORDER] = ir.UnitAttr.get()
            return loop
        position = body.write(index, {id(n): step for n, step in zip(stage.steps, steps, strict=True)})
        old = builder.e.op("tensor.extract", tensor.type.element_type, [tensor, *position])
        (new,) = body.write([value], {id(stage.accumulator): old})
        return builder.e.op("tensor.insert", tensor.type, [new, tensor, *position])

    return nest(builder.tensor(stage.base), ())


def _loop(
    builder: StageBuilder, bounds: Sequence[Value], tensor: Value, body: Callable[[Value, Value], Value]
) -> Value:
    """`scf.for` from, to and by `bounds` that carries `tensor`."""
    loop = ir.Operation.create("scf.for", results=[tensor.type], operands=[*bounds, tensor], regions=1)
    block = loop.regions[0].blocks.append(builder.e.index_type, tensor.type, arg_locs=[builder.location] * 2)
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.yield", operands=[body(*block.arguments)])
    return loop.result


def place(builder: StageBuilder, stage: c.Place) -> Value:
    """A `linalg.fill`, then a `tensor.insert_slice` for each part; dynamic sizes are checked at run time."""
    out = builder.empty(stage.shape, stage.dtype)
    if stage.fill is not None:
        out = builder.fill(out, stage.fill)
    for index, part in enumerate(stage.parts):
        _check_part(builder, stage, part, f"part {index}")
        if not _has_no_elements(builder, stage, part):
            out = _insert(builder, out, part)
    return out


def _has_no_elements(builder: StageBuilder, stage: c.Place, part: c.Part) -> bool:
    """Whether a part is known to be empty, or begins at an end of the result: MLIR refuses such insertions."""
    extents = builder.sizes.extents(stage.shape)
    begins_at_end = any(
        isinstance(extent, int) and isinstance(offset, int) and offset >= extent
        for extent, offset in zip(extents, map(static_size, part.offsets), strict=True)
    )
    return begins_at_end or _is_empty(builder, part.source.shape) or _is_empty(builder, stage.shape)


def _is_empty(builder: StageBuilder, shape: Sequence[c.Size]) -> bool:
    """Whether a size is known to be 0."""
    return any(isinstance(n, int) and n == 0 for n in builder.sizes.extents(shape))


def _check_part(builder: StageBuilder, stage: c.Place, part: c.Part, text: str) -> None:
    """Checks that a part is inside the result; without a fill, that it spans the dimensions without offsets."""
    for dim, (extent, size) in enumerate(zip(stage.shape, part.source.shape, strict=True)):
        if (
            static_size(extent) is not None
            and static_size(size) is not None
            and static_size(part.offsets[dim]) is not None
        ):
            continue
        if (
            stage.fill is None
            and all(static_size(p.offsets[dim]) == 0 for p in stage.parts)
            and not _first_part_covers(builder, stage)
        ):
            builder.check_equal(size, extent, f"dimension {dim} of {text}")
        else:
            last = part.offsets[dim] + (c.as_expr(size) - 1) * part.strides[dim]
            builder.check_at_least(extent, last + 1, f"dimension {dim} of {text}")


def _first_part_covers(builder: StageBuilder, stage: c.Place) -> bool:
    """Whether the first part is as large as the result, so that the others overwrite parts of it."""
    return bool(builder.sizes.extents(stage.parts[0].source.shape) == builder.sizes.extents(stage.shape))


def _insert(builder: StageBuilder, out: Value, part: c.Part) -> Value:
    offsets, sizes = static_shape(part.offsets), static_shape(part.source.shape)
    dynamic = [
        builder.sizes.values([x for x in group if static_size(x) is None])
        for group in (part.offsets, part.source.shape)
    ]
    attributes = {
        "static_offsets": dense(offsets),
        "static_sizes": dense(sizes),
        "static_strides": dense(part.strides),
        "operandSegmentSizes": builder.e.attribute(f"array<i32: 1, 1, {len(dynamic[0])}, {len(dynamic[1])}, 0>"),
    }
    operands = [builder.tensor(part.source), out, *dynamic[0], *dynamic[1]]
    return builder.e.op("tensor.insert_slice", out.type, operands, attributes)


def reshape(builder: StageBuilder, stage: c.Reshape) -> Value:
    """Collapses and expands groups of dimensions; dynamic numbers of elements are compared at run time."""
    value, dims = builder.tensor(stage.source), static_shape(stage.shape)
    source, target = builder.sizes.extents(stage.source.shape), builder.sizes.extents(stage.shape)
    builder.check_equal(c.product(stage.source.shape), c.product(stage.shape), "the number of elements")
    if any(isinstance(x, int) and x == 0 for x in (*source, *target)):
        return builder.empty(stage.shape, stage.dtype)
    if not target:
        return reassociation.to_scalar(builder.e, value)
    if not source:
        return reassociation.from_scalar(builder.e, value, dims)
    dynamic = builder.sizes.values([x for x, d in zip(stage.shape, dims, strict=True) if d is None])
    return reassociation.reassociate(
        builder.e, value, reassociation.reassociation_groups(source, target), dims, dynamic
    )


#: The rule of each primitive.
RULES: Mapping[type[Stage], Rule] = {
    c.ElementWise: element_wise, c.Fold: fold, c.Scan: scan, c.Scatter: scatter, c.Place: place, c.Reshape: reshape,
}  # fmt: skip
