"""`flow.scope`: where calls run."""

from oneflow.frontend.oneflow_v0.jobs import placement

__all__ = ["placement"]
