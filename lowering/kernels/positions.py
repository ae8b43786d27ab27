"""Positions as index arithmetic at the insertion point."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from oneflow.dialect._mlir import arith, ir
from oneflow.lowering.kernels.nodes import AffineForm


def index_constant(value: int) -> ir.Value:
    """An index constant."""
    return arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), value)).result


def index_of(form: AffineForm, positions: Mapping[int, ir.Value]) -> ir.Value:
    """The value of an affine form where loop `d` is at `positions[d]`."""
    terms = [_times(positions[d], factor) for d, factor in form.terms]
    if form.constant or not terms:
        terms.append(index_constant(form.constant))
    return functools.reduce(lambda a, b: arith.AddIOp(a, b).result, terms)


def _times(position: ir.Value, factor: int) -> ir.Value:
    """A position times a constant."""
    return position if factor == 1 else arith.MulIOp(position, index_constant(factor)).result
