"""Samples: one row is a tested call of an operator, and every test reads the same rows.

    Sample("matmul", [t(3, 4), t(4, 5)], dtypes=FLOATS)
    Sample("leaky_relu", [t(2, 3)], {"alpha": 0.1})
    Bad("matmul", [t(3, 4), t(5, 6)], match="expected the contracted dimension of b to be 4, got 5")

Operands without their own type have each of the sample's `dtypes` in turn.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneflow.dialect import dtypes as dt
from oneflow.dialect.dtypes import DType

#: The integers that samples run with: each width is lowered by the same rules. `samples/integers.py` has the others.
INTEGERS = (dt.uint8, dt.int8, dt.int32, dt.int64)
NUMERIC = INTEGERS + dt.FLOATS
ALL = (dt.bool_, *NUMERIC)


@dataclass(frozen=True, eq=False)
class T:
    """An operand of a sample: random values of `shape` in `[low, high)`, or `values` themselves.

    `dtype` None is the type of the sample's run. Integers are drawn from `[low, high)` too.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: DType | None = None
    values: Any = None

    def array(self, dtype: DType, rng: np.random.Generator) -> np.ndarray:
        """The operand's values when the sample is run with `dtype`."""
        own = self.dtype or dtype
        if self.values is not None:
            return np.asarray(self.values).astype(own.numpy).reshape(self.shape)
        if own.kind == "bool":
            return rng.integers(0, 2, self.shape).astype(np.bool_)
        low = max(self.low, 0.0) if own.kind == "uint" else self.low
        if own.is_integer:
            first = int(np.ceil(low))
            last = max(int(np.ceil(self.high)), first + 1)
            return rng.integers(first, last, self.shape).astype(own.numpy)
        if own.is_complex:
            parts = rng.uniform(low, self.high, (*self.shape, 2))
            return (parts[..., 0] + 1j * parts[..., 1]).astype(own.numpy)
        return rng.uniform(low, self.high, self.shape).astype(own.numpy)


def t(*shape: int, low: float = -2.0, high: float = 2.0, dtype: DType | None = None, values: Any = None) -> T:
    """An operand of `shape`; see `T`."""
    return T(shape, low, high, dtype, values)


def v(values: Any, dtype: DType | None = None) -> T:
    """An operand with these values."""
    return T(np.asarray(values).shape, dtype=dtype, values=values)


#: Relative and absolute tolerance of a backend against the reference, by element type.
TOLERANCE = {
    dt.float16: (2e-3, 2e-3),
    dt.bfloat16: (2e-2, 2e-2),
    dt.float32: (2e-5, 2e-6),
    dt.float64: (1e-10, 1e-12),
    dt.complex64: (2e-5, 2e-6),
    dt.complex128: (1e-10, 1e-12),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """A call of an operator that works.

    Attributes:
        op: the operator's name.
        operands: `T`s in the order of the signature; None for a missing optional operand, a list for a repeated
            operand.
        attrs: attributes by name; a DType-valued attribute may be the string "dtype" for the running type.
        dtypes: the element types of the sample's runs.
        rtol, atol: tolerance of f32 and complex64 results where the default is too tight, with the reason in `why`.
        gradient: whether the gradient is compared with finite differences (in double precision); False needs a reason
            in `why`.
        second_order: whether the gradient's gradient is too.
    """

    op: str
    operands: Sequence[Any] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Sequence[DType] = (dt.float32,)
    rtol: float | None = None
    atol: float | None = None
    gradient: bool = True
    second_order: bool = True
    why: str = ""

    def arrays(self, dtype: DType, seed: int = 0) -> list[Any]:
        """The operands' arrays, the same in every run."""
        key = zlib.crc32(f"{self.op}{self.operands}{self.attrs}".encode())
        rng = np.random.default_rng([key, seed])

        def make(operand: Any) -> Any:
            if isinstance(operand, (list, tuple)):
                return tuple(make(o) for o in operand)
            return None if operand is None else operand.array(dtype, rng)

        return [make(o) for o in self.operands]

    @property
    def precise_dtype(self) -> DType:
        """The type for checks that need accurate sums: double precision for floats and complex numbers."""
        first = self.dtypes[0]
        return dt.complex128 if first.is_complex else dt.float64 if first.is_float else first

    def attributes(self, dtype: DType) -> dict[str, Any]:
        """The attributes when run with `dtype`."""
        return {k: dtype if value == "dtype" else value for k, value in self.attrs.items()}

    def tolerance(self, dtype: DType) -> tuple[float, float]:
        """Relative and absolute tolerance for results of `dtype`."""
        rtol, atol = TOLERANCE.get(dtype, (0.0, 0.0))
        if dtype in (dt.float32, dt.complex64):
            return self.rtol or rtol, self.atol or atol
        return rtol, atol

    def __str__(self) -> str:
        shapes = ",".join(str(list(o.shape)) if isinstance(o, T) else "*" for o in self.operands)
        attrs = ",".join(f"{k}={value}" for k, value in self.attrs.items())
        return f"{self.op}-{shapes}-{attrs}"[:90]


@dataclass(frozen=True)
class Bad:
    """A call of an operator that is refused, with (part of) the message."""

    op: str
    operands: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    match: str = ""
    dtype: DType = dt.float32

    def __str__(self) -> str:
        return f"{self.op}-{self.match}"[:90]
