"""`flow.scope`: where calls run. Imports `jobs`."""

from oneflow.frontend.jobs import placement

__all__ = ["placement"]
