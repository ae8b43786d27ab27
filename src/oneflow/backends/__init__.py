"""Settings of programs for GPUs under PyTorch's names: `flow.backends`."""

from oneflow.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
