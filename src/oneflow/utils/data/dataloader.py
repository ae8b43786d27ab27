"""Loaders of batches: `flow.utils.data.dataloader`."""

from oneflow.frontend.data import loader
from oneflow.frontend.data.loader import *  # noqa: F403

__all__ = loader.__all__
