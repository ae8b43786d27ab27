"""The backend as `onnx.backend.test` takes it: `oneflow.onnx.backend.prepare(model).run(inputs)`."""

from oneflow.frontend import api  # noqa: F401  (gives tensors their methods)
from oneflow.frontend.importers.onnx.backend import (
    OneFlowBackend,
    prepare,
    run_model,
    run_node,
    supports_device,
)

__all__ = ["OneFlowBackend", "prepare", "run_model", "run_node", "supports_device"]
