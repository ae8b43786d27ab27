"""Which form for Hopper a product has, if any: by the width of its operands."""

from __future__ import annotations

from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.cost.matmul_configurations import hopper, hopper_single
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.gluon import ARCH
from oneflow.lowering.triton.templates.hopper_matmul import HopperEmission
from oneflow.lowering.triton.templates.hopper_matmul_f32 import SingleEmission


def special(product: Contraction) -> dict[str, Source]:
    """The form of a product for Hopper, by its architecture, where that is expected to be faster than all others."""
    emission = _emission(product) if len(product.terms) == 1 else None
    return {ARCH: emission.emit()} if emission is not None and emission.is_possible else {}


def _emission(product: Contraction) -> HopperEmission | None:
    if product.problem.width == 2:
        config = hopper(product.problem)
        return None if config is None else HopperEmission(product, config)
    config = hopper_single(product.problem) if product.precision == "ieee" else None
    return None if config is None else SingleEmission(product, config)
