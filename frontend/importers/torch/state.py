"""Files of `torch.save`: structures of tensors and plain values."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils import _pytree as pytree

from oneflow.frontend.core.errors import CallError
from oneflow.frontend.eager.tensor import wrapped
from oneflow.frontend.importers.torch.exchange import to_array


def load_state(path: str | os.PathLike[str]) -> Any:
    """The contents of a file of `torch.save`, as tensors of this library; nothing in the file runs.

    Raises:
        CallError: the file is malformed, or has other objects than tensors and plain values.
        UnsupportedError: the dialect has no such element type.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch does not document its exceptions for broken files
        text = " ".join(str(error).split())[:200]
        raise CallError(f"cannot read {os.fspath(path)}: expected a file of torch.save, got {text}") from None
    return pytree.tree_map(lambda x: wrapped(to_array(x.contiguous())) if isinstance(x, torch.Tensor) else x, content)
