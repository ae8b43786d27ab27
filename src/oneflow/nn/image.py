"""Modules for batches of images."""

from oneflow.frontend.nn.image_lists import ImageDecode as decode
from oneflow.frontend.nn.image_lists import ImageResize as Resize
from oneflow.frontend.nn.images import ImageBatchAlign as batch_align
from oneflow.frontend.nn.images import ImageFlip as flip
from oneflow.frontend.nn.images import ImageNormalize as normalize

__all__ = ["Resize", "batch_align", "decode", "flip", "normalize"]
