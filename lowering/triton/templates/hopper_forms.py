"""Chooses the warp-specialized form of a matrix product for Hopper, if any, by the units that multiply."""

from __future__ import annotations

from oneflow.lowering.triton.codegen.matmul import Contraction
from oneflow.lowering.triton.cost.matmul_configurations import warp_specialized_config
from oneflow.lowering.triton.source import Source
from oneflow.lowering.triton.templates.gluon import ARCH
from oneflow.lowering.triton.templates.hopper_matmul import HopperEmission
from oneflow.lowering.triton.templates.hopper_matmul_f32 import HopperF32Emission


def special(product: Contraction) -> dict[str, Source]:
    """The form of a product for Hopper, by its architecture, where it is expected to be the fastest."""
    emission = _emission(product) if len(product.terms) == 1 else None
    return {ARCH: emission.emit()} if emission is not None and emission.is_possible else {}


def _emission(product: Contraction) -> HopperEmission | None:
    config = warp_specialized_config(product.problem)
    emission = HopperEmission if product.problem.uses_tensor_cores else HopperF32Emission
    return None if config is None else emission(product, config)
