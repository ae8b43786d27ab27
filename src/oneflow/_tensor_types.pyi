"""The classes of tensors of one element type, of `flow` and `flow.cuda`.

Generated from the functions by `docs/generate.py`.
"""

import builtins
from oneflow.frontend.core.tensor import Tensor
from typing import Any
from typing import overload

BFloat16Tensor = Tensor
BoolTensor = Tensor
ByteTensor = Tensor
CharTensor = Tensor
ComplexDoubleTensor = Tensor
ComplexFloatTensor = Tensor
DoubleTensor = Tensor
Float8_e4m3fnTensor = Tensor
Float8_e5m2Tensor = Tensor
FloatTensor = Tensor
HalfTensor = Tensor
IntTensor = Tensor
LongTensor = Tensor
ShortTensor = Tensor
UInt16Tensor = Tensor
UInt32Tensor = Tensor
UInt64Tensor = Tensor
