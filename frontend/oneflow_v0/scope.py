"""`flow.scope`: the device of calls in a job."""

from oneflow.frontend.oneflow_v0.jobs import placement

__all__ = ["placement"]
