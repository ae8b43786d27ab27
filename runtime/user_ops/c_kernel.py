"""Kernels written in C: the `kernel` slot of an operator that is defined in Python.

    kernel = c_kernel("for (int64_t i = 0; i < x_size; ++i) y[i] = x[i] > limit ? limit : x[i];")

The text is the body of a C function. An operand or result `x` is a pointer `x`, with its number of elements `x_size`
and its shape `x_shape`; an attribute is a constant. The function is compiled by the C compiler of the system, once
for each set of types and attributes, and cached on disk.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneflow.dialect import dtypes
from oneflow.dialect.external import ExternalKernel
from oneflow.dialect.record import Call
from oneflow.dialect.signature import Signature
from oneflow.runtime import cache
from oneflow.runtime.user_ops.bounds_checks import bounds_checked_kernel, is_checking_bounds
from oneflow.runtime.user_ops.tensors import check_names, named_tensors

#: C types by element type; 16-bit floats are passed as their bits.
C_TYPES = {
    "float32": "float", "float64": "double", **{d.name: f"{d.name}_t" for d in dtypes.INTEGERS},
    "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip
#: Reserved names: keywords of C, types and macros of the headers, the parameter of the function.
RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "asm NULL NAN INFINITY buffers".split()
) | set(C_TYPES.values())
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-w")
HEAD = """#include <math.h>
#include <stdint.h>
#include <string.h>
"""
TAIL = """
static _Thread_local const char *failure;
int32_t run(void *context, void *const *buffers, void *stream) {
  failure = body(buffers);
  return failure != 0;
}
const char *last_failure(void) { return failure; }
"""


@dataclass(frozen=True)
class CKernel:
    """A kernel in C: the body of a function, and the source before the function.

    `return "text";` in the body reports a failure.
    """

    source: str
    before: str = ""

    def __call__(self, op: Call) -> ExternalKernel:
        """The external kernel of a static call.

        Raises:
            OperatorError: there is no C compiler, the source does not compile, or an attribute cannot be a constant.
        """
        loaded = ctypes.CDLL(str(_compiled(self.text(op), op)))
        loaded.last_failure.restype = ctypes.c_char_p
        address = ctypes.cast(loaded.run, ctypes.c_void_p).value
        assert address is not None
        if is_checking_bounds():
            return bounds_checked_kernel(functools.partial(_call, loaded), op)
        return ExternalKernel(address, 0, lambda: _failure(loaded), loaded)

    def check(self, signature: Signature) -> None:
        """Checks that the names of an operator are usable in C.

        Raises:
            SignatureError: a name is not.
        """
        check_names(signature, "C", "_size|_shape", RESERVED)

    def text(self, op: Call) -> str:
        """The C source of a static call."""
        lines = [*_tensors(op), *(line for name, value in op.attrs.items() for line in _constant(op, name, value))]
        body = ["static const char *body(void *const *buffers) {", *lines, "{", self.source, "}", "return 0;", "}"]
        return "\n".join([HEAD, self.before, *body, TAIL])


def c_kernel(source: str, before: str = "") -> CKernel:
    """A kernel in C for an operator: the body of a function, and includes and functions `before` it."""
    return CKernel(source, before)


def _failure(loaded: ctypes.CDLL) -> str:
    """The text of the last failure of a loaded kernel."""
    return str((loaded.last_failure() or b"").decode())


def _call(loaded: ctypes.CDLL, buffers: Any) -> None:
    if loaded.run(None, buffers, None):
        raise ValueError(_failure(loaded))


def _tensors(op: Call) -> Iterator[str]:
    index = 0
    for table, const in ((op.inputs, "const "), (op.outputs, "")):
        for name, desc in named_tensors(table):
            if desc is None:
                yield f"const void *const {name} = 0;"
                continue
            kind = f"{const}{C_TYPES[desc.dtype.name]}"
            sizes = ", ".join(map(str, desc.shape or ())) or "1"
            yield f"{kind} *const {name} = ({kind} *)buffers[{index}];"
            yield f"const int64_t {name}_size = {desc.element_count}, {name}_shape[] = {{{sizes}}};"
            index += 1


def _constant(op: Call, name: str, value: Any) -> Iterator[str]:
    kinds = {bool: "int64_t", int: "int64_t", float: "double", str: "char *"}
    items = value if isinstance(value, tuple) else (value,)
    if any(type(x) not in kinds for x in items):
        raise op.error(f"expected numbers or strings as attributes of a kernel in C, got {name} = {value!r}")
    kind = kinds[type(items[0])] if items else "int64_t"
    written = ", ".join(map(_literal, items))
    if isinstance(value, tuple):
        yield f"const {kind} {name}[] = {{{written or 0}}}; const int64_t {name}_size = {len(items)};"
    else:
        yield f"const {kind} {name} = {written};"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return '"' + "".join(f"\\{byte:03o}" for byte in value.encode()) + '"'  # C has no JSON escapes
    if isinstance(value, float):
        return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(repr(value), repr(value))
    return str(int(value))


def _compiled(text: str, op: Call) -> Path:
    """The shared object of a C source, from the cache or compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise op.error("expected a C compiler for its kernel (cc, gcc or clang), found none")
    key = cache.key_of(text, compiler, *FLAGS)
    entry = cache.find(key)
    if entry is not None:
        return entry[0]
    folder = Path(tempfile.mkdtemp(prefix="oneflow-c-"))
    source, target = folder / f"{op.record.name}.c", folder / "kernel.so"
    source.write_text(text, encoding="utf-8")
    done = subprocess.run([compiler, *FLAGS, str(source), "-o", str(target), "-lm"], capture_output=True, check=False)
    if done.returncode:
        raise op.error(f"its kernel in C cannot be compiled:\n{done.stderr.decode(errors='replace').strip()}")
    cache.store(key, target, {})
    cached = cache.find(key)
    if cached is None:
        return target
    shutil.rmtree(folder, ignore_errors=True)
    return cached[0]
