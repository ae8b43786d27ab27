"""Programs that import PyTorch run with this project: `flow.mock_torch`."""

from oneflow.frontend.mock_torch import disable, enable, is_enabled

__all__ = ["disable", "enable", "is_enabled"]
