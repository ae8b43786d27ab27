"""The names of `import oneflow as flow`."""

from oneflow.dialect import scalar
from oneflow.dialect.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from oneflow.dialect.dtypes import DType as dtype  # noqa: N813
from oneflow.dialect.dtypes import bool_ as bool
from oneflow.dialect.dtypes import complex64 as cfloat
from oneflow.dialect.dtypes import complex128 as cdouble
from oneflow.dialect.dtypes import float16 as half
from oneflow.dialect.dtypes import float32 as float
from oneflow.dialect.dtypes import float64 as double
from oneflow.dialect.dtypes import int8 as char
from oneflow.dialect.dtypes import int16 as short
from oneflow.dialect.dtypes import int32 as int
from oneflow.dialect.dtypes import int64 as long
from oneflow.dialect.tensor_desc import TensorDesc
from oneflow.frontend import functional
from oneflow.frontend.amp import autocast, get_autocast_cpu_dtype, get_autocast_gpu_dtype, is_autocast_enabled
from oneflow.frontend.compile.compiled import CompiledFunction, compile
from oneflow.frontend.core.devices import Device, device
from oneflow.frontend.core.errors import CallError, OneFlowError, TraceError
from oneflow.frontend.core.generator import get_rng_state, set_rng_state
from oneflow.frontend.core.memory_layout import Layout as layout  # noqa: N813
from oneflow.frontend.core.memory_layout import strided
from oneflow.frontend.core.settings import get_default_dtype, set_default_dtype
from oneflow.frontend.core.shape import Shape as Size
from oneflow.frontend.core.spec import TensorSpec
from oneflow.frontend.core.type_info import finfo, iinfo
from oneflow.frontend.eager.constructors import as_tensor_of as as_tensor
from oneflow.frontend.eager.constructors import from_numpy, tensor
from oneflow.frontend.eager.printing import set_printoptions
from oneflow.frontend.eager.tape import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from oneflow.frontend.functional import *  # noqa: F403
from oneflow.frontend.functional_c import FUNCTIONS as _C  # noqa: F401
from oneflow.frontend.global_tensor import to_global
from oneflow.frontend.importers.lazy import from_onnx, from_torch, to_onnx
from oneflow.frontend.importers.saved.files import load, save
from oneflow.frontend.importers.saved.graphs import load_graph
from oneflow.frontend.methods import attributes, inplace, methods, random_numbers  # noqa: F401
from oneflow.frontend.methods.attributes import new_empty, new_full, new_ones, new_zeros
from oneflow.frontend.methods.tensor_type import Tensor, set_default_tensor_type, typed_tensors
from oneflow.frontend.oneflow_v0 import config, optimizer, scope, variables
from oneflow.frontend.oneflow_v0.jobs import FunctionConfig, global_function, watch, watch_diff
from oneflow.frontend.oneflow_v0.user_op_builder import user_op_builder
from oneflow.frontend.oneflow_v0.variables import *  # noqa: F403
from oneflow.frontend.operators import OPS as ops  # noqa: N811
from oneflow.frontend.operators import elementwise, operator
from oneflow.frontend.tracing import autograd, control_flow
from oneflow.frontend.tracing.activation_checkpointing import *  # noqa: F403
from oneflow.frontend.tracing.autograd import *  # noqa: F403
from oneflow.frontend.tracing.control_flow import *  # noqa: F403
from oneflow.frontend.tracing.trace import trace
from oneflow.frontend.training_checkpoint import Checkpoint
from oneflow.runtime.global_array import Placement as placement  # noqa: N813
from oneflow.runtime.native import num_threads as get_num_threads
from oneflow.runtime.native import set_num_threads
from oneflow.runtime.user_ops.c_kernel import c_kernel
from oneflow.runtime.user_ops.numpy_kernel import numpy_kernel
from oneflow.runtime.user_ops.triton_kernel import triton_kernel

__all__ = [
    "CallError",
    "Checkpoint",
    "CompiledFunction",
    "DType",
    "Device",
    "FunctionConfig",
    "OneFlowError",
    "Size",
    "Tensor",
    "TensorDesc",
    "TensorSpec",
    "TraceError",
    "as_tensor",
    "autocast",
    "bfloat16",
    "bool",
    "c_kernel",
    "cdouble",
    "cfloat",
    "char",
    "compile",
    "complex64",
    "complex128",
    "config",
    "device",
    "double",
    "dtype",
    "elementwise",
    "enable_grad",
    "finfo",
    "float",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "from_onnx",
    "from_torch",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "global_function",
    "half",
    "iinfo",
    "inference_mode",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_enabled",
    "is_grad_enabled",
    "layout",
    "load",
    "load_graph",
    "long",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "no_grad",
    "numpy_kernel",
    "operator",
    "ops",
    "optimizer",
    "placement",
    "save",
    "scalar",
    "scope",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "strided",
    "tensor",
    "to_global",
    "to_onnx",
    "trace",
    "triton_kernel",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "user_op_builder",
    "watch",
    "watch_diff",
]  # fmt: skip
#: The classes of tensors of one element type, and functions that update their argument.
_TABLES = {**typed_tensors("cpu"), **inplace.FUNCTIONS}
globals().update(_TABLES)
__all__ += list(_TABLES)
__all__ += autograd.__all__
__all__ += control_flow.__all__
__all__ += functional.__all__
__all__ += variables.__all__
