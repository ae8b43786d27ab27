"""`flow.scope`: where calls run. Imports `global_function`."""

from oneflow.frontend.global_function import placement

__all__ = ["placement"]
