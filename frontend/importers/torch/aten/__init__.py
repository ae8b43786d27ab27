"""The table of ATen operators, a module for each family."""

from oneflow.frontend.importers.torch.aten import (
    activations,
    attention,
    control,
    convolutions,
    elementwise,
    embeddings,
    indexing,
    losses,
    movement,
    normalization,
    pooling,
    products,
    random,
    recurrent,
    reductions,
    sources,
    spectra,
)

__all__ = [
    "activations", "attention", "control", "convolutions", "elementwise", "embeddings", "indexing", "losses",
    "movement", "normalization", "pooling", "products", "random", "recurrent", "reductions", "sources",
    "spectra",
]  # fmt: skip
