"""Data sets: `flow.utils.data.dataset`."""

from oneflow.frontend.data import datasets
from oneflow.frontend.data.datasets import *  # noqa: F403

__all__ = datasets.__all__
