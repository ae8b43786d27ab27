"""The rules: one per primitive of the compute algebra. No operator is named here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oneflow.dialect import compute as c
from oneflow.dialect import dtypes
from oneflow.dialect import scalar as s
from oneflow.dialect._mlir import ir
from oneflow.dialect.compute import Stage
from oneflow.dialect.scalar import Expr
from oneflow.lowering.linalg import regroup
from oneflow.lowering.linalg.bodies import Body, is_uniform
from oneflow.lowering.linalg.emit import ANY_ORDER, Value, dense
from oneflow.lowering.linalg.generic import Loops
from oneflow.lowering.linalg.hoist import hoist_checks, substitute
from oneflow.lowering.linalg.sizes import known, static_shape
from oneflow.lowering.linalg.stages import Rule, Stages


def element_wise(at: Stages, stage: c.ElementWise) -> Value:
    """Parallel loops with one result; a fill where every element is the same."""
    out = at.empty(stage.shape, stage.dtype)
    if is_uniform(stage.body):
        return at.fill(out, stage.body)
    loops = Loops(stage.positions, stage.shape)
    return at.generic(loops, [stage.body], [(out, loops.identity)])[0]


def fold(at: Stages, stage: c.Fold) -> Value:
    """One generic for all accumulators of the reduction; its outs hold the initial values."""
    reduction = stage.reduction
    if id(reduction) not in at.reductions:
        at.reductions[id(reduction)] = _reduce(at, reduction)
    return at.reductions[id(reduction)][stage.result]


def _reduce(at: Stages, reduction: c.Reduction) -> list[Value]:
    kept, steps = len(reduction.positions), len(reduction.steps)
    loops = Loops(
        (*reduction.positions, *reduction.steps),
        (*reduction.shape, *reduction.extents),
        tuple(range(kept, kept + steps)),
    )
    inits = [c.ElementWise(reduction.shape, i.dtype, reduction.positions, i) for i in reduction.inits]
    outs = [(element_wise(at, init), loops.select(range(kept))) for init in inits]
    return at.generic(loops, reduction.bodies, outs, reduction.accumulators, associative=reduction.associative)


def scan(at: Stages, stage: c.Scan) -> Value:
    """The scanned loop is sequential; outs are the result and the running value."""
    positions = tuple(Expr("index", (), dtypes.index, i) for i in range(stage.rank))
    loops = Loops(positions, stage.shape, (stage.axis,))
    rest = [i for i in range(stage.rank) if i != stage.axis]
    running = at.fill(at.empty([stage.shape[i] for i in rest], stage.dtype), stage.init)
    outs = [(at.empty(stage.shape, stage.dtype), loops.identity), (running, loops.select(rest))]
    element = s.cast(Expr("load", positions, stage.x.dtype, stage.x), stage.element.dtype)
    body = substitute(stage.body, {id(stage.element): element})
    so_far = s.arg(-1, stage.dtype)
    return at.generic(loops, [body, body], outs, [so_far, stage.accumulator])[0]


def scatter(at: Stages, stage: c.Scatter) -> Value:
    """Sequential loops that carry the tensor."""
    *index, value = hoist_checks(stage.steps, stage.extents, [*stage.index, stage.body])
    body = Body(at.context, [*index, value], [*map(id, stage.steps), id(stage.accumulator)])
    extents = at.sizes.values(stage.extents)
    zero, one = at.shapes.value(0), at.shapes.value(1)

    def nest(tensor: Value, steps: tuple[Value, ...]) -> Value:
        if len(steps) < len(extents):
            bounds = [zero, extents[len(steps)], one]
            made = _loop(at, bounds, tensor, lambda step, carried: nest(carried, (*steps, step)))
            if stage.any_order:
                made.owner.attributes[ANY_ORDER] = ir.UnitAttr.get()
            return made
        place_ = body.write(index, {id(n): step for n, step in zip(stage.steps, steps, strict=True)})
        old = at.e.op("tensor.extract", tensor.type.element_type, [tensor, *place_])
        (new,) = body.write([value], {id(stage.accumulator): old})
        return at.e.op("tensor.insert", tensor.type, [new, tensor, *place_])

    return nest(at.tensor(stage.base), ())


def _loop(at: Stages, bounds: Sequence[Value], tensor: Value, body: Callable[[Value, Value], Value]) -> Value:
    """`scf.for` from, to and by `bounds` that carries `tensor`."""
    loop = ir.Operation.create("scf.for", results=[tensor.type], operands=[*bounds, tensor], regions=1)
    block = loop.regions[0].blocks.append(at.e.index_type, tensor.type, arg_locs=[at.place] * 2)
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.yield", operands=[body(*block.arguments)])
    return loop.result


def place(at: Stages, stage: c.Place) -> Value:
    """A fill, then every part inserted; what the types leave open of sizes is checked."""
    out = at.empty(stage.shape, stage.dtype)
    if stage.fill is not None:
        out = at.fill(out, stage.fill)
    for number, part in enumerate(stage.parts):
        _check_part(at, stage, part, f"part {number}")
        if not _is_empty(at, part.source.shape) and not _is_empty(at, stage.shape):
            out = _insert(at, out, part)
    return out


def _is_empty(at: Stages, shape: Sequence[c.Size]) -> bool:
    """Whether a size is known to be 0: MLIR refuses to insert anything there, at any position."""
    return any(isinstance(n, int) and n == 0 for n in at.sizes.extents(shape))


def _check_part(at: Stages, stage: c.Place, part: c.Part, text: str) -> None:
    """A part stays inside; parts that tile the whole (no fill) span every dimension along which none is offset."""
    for dim, (whole, size) in enumerate(zip(stage.shape, part.source.shape, strict=True)):
        if known(whole) is not None and known(size) is not None and known(part.offsets[dim]) is not None:
            continue
        if stage.fill is None and all(known(p.offsets[dim]) == 0 for p in stage.parts) and not _covers(at, stage):
            at.expect_equal(size, whole, f"dimension {dim} of {text}")
        else:
            last = part.offsets[dim] + (c.as_expr(size) - 1) * part.strides[dim]
            at.expect_at_least(whole, last + 1, f"dimension {dim} of {text}")


def _covers(at: Stages, stage: c.Place) -> bool:
    """Whether the first part is as large as the whole, so that the others replace pieces of it."""
    return bool(at.sizes.extents(stage.parts[0].source.shape) == at.sizes.extents(stage.shape))


def _insert(at: Stages, out: Value, part: c.Part) -> Value:
    offsets, sizes = static_shape(part.offsets), static_shape(part.source.shape)
    dynamic = [at.sizes.values([x for x in group if known(x) is None]) for group in (part.offsets, part.source.shape)]
    attributes = {
        "static_offsets": dense(offsets),
        "static_sizes": dense(sizes),
        "static_strides": dense(part.strides),
        "operandSegmentSizes": at.e.attribute(f"array<i32: 1, 1, {len(dynamic[0])}, {len(dynamic[1])}, 0>"),
    }
    operands = [at.tensor(part.source), out, *dynamic[0], *dynamic[1]]
    return at.e.op("tensor.insert_slice", out.type, operands, attributes)


def reshape(at: Stages, stage: c.Reshape) -> Value:
    """Groups of dimensions collapsed and expanded; element counts are compared at run time where dynamic."""
    value, dims = at.tensor(stage.source), static_shape(stage.shape)
    source, target = at.sizes.extents(stage.source.shape), at.sizes.extents(stage.shape)
    at.expect_equal(c.product(stage.source.shape), c.product(stage.shape), "the number of elements")
    if any(isinstance(x, int) and x == 0 for x in (*source, *target)):
        return at.empty(stage.shape, stage.dtype)
    if not target:
        return regroup.to_scalar(at.e, value)
    if not source:
        return regroup.from_scalar(at.e, value, dims)
    dynamic = at.sizes.values([x for x, d in zip(stage.shape, dims, strict=True) if d is None])
    return regroup.regroup(at.e, value, regroup.groups(source, target), dims, dynamic)


#: What makes a stage's value, by the primitive.
RULES: Mapping[type[Stage], Rule] = {
    c.ElementWise: element_wise, c.Fold: fold, c.Scan: scan, c.Scatter: scatter, c.Place: place, c.Reshape: reshape,
}  # fmt: skip
