"""Folding reshapes that only add or drop unit dimensions into the indexing maps of their users.

    %m1 = tensor.expand_shape %m [[0, 1]] : tensor<4xf32> into tensor<4x1xf32>
    linalg.generic {(d0, d1) -> (d0, 0)} ins(%m1)      ->      linalg.generic {(d0, d1) -> (d0)} ins(%m)

A reduction that keeps its dimensions then shares loops with its users.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.dialect._mlir import ir

RESHAPES = frozenset({"tensor.expand_shape", "tensor.collapse_shape"})


def fold_reshapes(op: ir.Operation) -> None:
    """Lets a `linalg.generic` read the sources of reshapes of its inputs, where indexing maps can express that."""
    maps = [a.value for a in op.attributes["indexing_maps"]]
    count = len(op.operands) - len(op.results)
    changed = False
    for index in range(count):
        while (reshape_source := _source(op.operands[index], maps[index])) is not None:
            source, shorter = reshape_source
            candidate_maps = [*maps[:index], shorter, *maps[index + 1 :]]
            if not _sizes_known(candidate_maps):
                break
            maps, op.operands[index], changed = candidate_maps, source, True
    if changed:
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])


def _source(value: ir.Value, indexing_map: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap] | None:
    """The source of a reshape and its indexing map; None where the reshape changes more than unit dimensions."""
    if isinstance(value, ir.BlockArgument) or value.owner.name not in RESHAPES:
        return None
    op = value.owner
    source = op.operands[0]
    groups = [[ir.IntegerAttr(i).value for i in g] for g in op.attributes["reassociation"]]
    expands = op.name == "tensor.expand_shape"
    longer = (value if expands else source).type
    kept = [[i for i in group if longer.is_dynamic_dim(i) or longer.get_dim_size(i) != 1] for group in groups]
    if any(len(k) > 1 for k in kept):
        return None
    zero, results = ir.AffineExpr.get_constant(0), list(indexing_map.results)
    if expands:
        exprs = [results[k[0]] if k else zero for k in kept]
    else:
        exprs = [zero] * longer.rank
        for result, keep in zip(results, kept, strict=True):
            for position in keep:
                exprs[position] = result
    return source, ir.AffineMap.get(indexing_map.n_dims, 0, exprs)


def _sizes_known(maps: Sequence[ir.AffineMap]) -> bool:
    """Whether every loop is a dimension of an operand."""
    dims = {e.position for m in maps for e in m.results if isinstance(e, ir.AffineDimExpr)}
    return dims == set(range(maps[0].n_dims))
