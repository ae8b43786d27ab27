"""The builders of ONNX operators: a module for each family. The import of the modules fills the table."""

from oneflow.frontend.importers.onnx.operators import (
    control,
    convolution,
    elementwise,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    reduction,
    regions,
    resizing,
    sequences,
    shape,
    signal,
    training,
)

__all__ = [
    "control", "convolution", "elementwise", "indexing", "normalization", "pooling", "products", "quantization",
    "recurrent", "reduction", "regions", "resizing", "sequences", "shape", "signal", "training",
]  # fmt: skip
