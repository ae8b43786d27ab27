"""Modules for batches of decoded images."""

from oneflow.frontend.nn.images import ImageBatchAlign as batch_align
from oneflow.frontend.nn.images import ImageFlip as flip
from oneflow.frontend.nn.images import ImageNormalize as normalize

__all__ = ["batch_align", "flip", "normalize"]
