"""What `import oneflow as flow` offers. Imports every part of the frontend."""

from oneflow.dialect.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)  # fmt: skip
from oneflow.dialect.dtypes import bool_ as bool
from oneflow.frontend import autograd, config, functional, inplace, sysconfig  # noqa: F401  (inplace gives tensors methods)
from oneflow.frontend.autograd import *  # noqa: F403
from oneflow.frontend.compiled import CompiledFunction, compile
from oneflow.frontend.eager import from_numpy, tensor
from oneflow.frontend.errors import CallError, TraceError
from oneflow.frontend.functional import *  # noqa: F403
from oneflow.frontend.functional_c import FUNCTIONS as _C  # noqa: F401
from oneflow.frontend.spec import TensorSpec
from oneflow.frontend.tape import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from oneflow.frontend.tensor import Tensor
from oneflow.frontend.trace import trace

__all__ = [
    "CallError", "CompiledFunction", "DType", "Tensor", "TensorSpec", "TraceError", "bfloat16", "bool", "compile",
    "config", "enable_grad", "float16", "float32", "float64", "from_numpy", "int8", "int32", "int64",
    "is_grad_enabled", "no_grad", "set_grad_enabled", "sysconfig", "tensor", "trace", "uint8",
]  # fmt: skip
__all__ += autograd.__all__
__all__ += functional.__all__
