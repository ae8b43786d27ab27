"""`flow.nn.parameter.Parameter`."""

from oneflow.frontend.nn.module import Parameter

__all__ = ["Parameter"]
