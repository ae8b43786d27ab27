"""Settings of changes of layout: `flow.boxing`."""

from oneflow.boxing import nccl

__all__ = ["nccl"]
