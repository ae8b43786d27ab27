"""Structures of tensors on placements: `flow.utils.global_view`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.global_view import current_global_mode, global_mode, to_global, to_local

__all__ = ["current_global_mode", "global_mode", "to_global", "to_local"]
