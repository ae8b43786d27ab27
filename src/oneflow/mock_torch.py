"""Programs that import PyTorch run with this project: `flow.mock_torch`."""

from oneflow.frontend.mock_torch import DummyModule, disable, enable, is_enabled

__all__ = ["DummyModule", "disable", "enable", "is_enabled"]
