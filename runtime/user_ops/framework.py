"""The C++ framework library, which user libraries link, and its C interface through ctypes.

`sdk/src/abi.h` defines the interface. Results are JSON.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oneflow

NAME = "liboneflow_framework.so"
#: The header that defines the version of the SDK.
HEADER = "oneflow/core/framework/registration.h"


class FrameworkError(ImportError):
    """The framework library is missing, or of another version."""


class AttrStruct(ctypes.Structure):
    """An attribute value."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int32),
        ("num_ints", ctypes.c_int64),
        ("num_floats", ctypes.c_int64),
        ("num_texts", ctypes.c_int64),
        ("num_lengths", ctypes.c_int64),
        ("ints", ctypes.POINTER(ctypes.c_int64)),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("texts", ctypes.POINTER(ctypes.c_char_p)),
        ("lengths", ctypes.POINTER(ctypes.c_int64)),
    ]


class DescStruct(ctypes.Structure):
    """Element type and sizes of one tensor."""

    _fields_ = [("data_type", ctypes.c_int32), ("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64))]


class ArgStruct(ctypes.Structure):
    """The tensors of one operand or result."""

    _fields_ = [("name", ctypes.c_char_p), ("size", ctypes.c_int64), ("descs", ctypes.POINTER(DescStruct))]


class CallStruct(ctypes.Structure):
    """A call of an operator."""

    _fields_ = [
        ("op", ctypes.c_char_p),
        ("device", ctypes.c_int32),
        ("num_attrs", ctypes.c_int64),
        ("num_inputs", ctypes.c_int64),
        ("num_outputs", ctypes.c_int64),
        ("attrs", ctypes.POINTER(AttrStruct)),
        ("inputs", ctypes.POINTER(ArgStruct)),
        ("outputs", ctypes.POINTER(ArgStruct)),
    ]


class TensorStruct(ctypes.Structure):
    """A tensor of a program under construction."""

    _fields_ = [("id", ctypes.c_int64), ("desc", DescStruct)]


class ArgumentStruct(ctypes.Structure):
    """An argument of a function; kind 0 is missing, 1 tensors, 2 an attribute value."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("num_tensors", ctypes.c_int64),
        ("tensors", ctypes.POINTER(TensorStruct)),
        ("value", AttrStruct),
    ]


#: The callback by which C++ adds an operation to the program.
Build = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def candidates() -> list[Path]:
    """The paths searched for the library: $ONEFLOW_SDK, or the package and the build folder of a
    source tree.
    """
    package = Path(oneflow.__file__).parent
    tree = Path(__file__).resolve().parents[2]
    folder = os.environ.get("ONEFLOW_SDK", "")
    if folder:
        return [Path(folder) / NAME]
    folders = [package / "lib", *(tree / "build" / d for d in ("sdk", ".")), *(tree / "build").glob("*/sdk")]
    folders.append(Path(sysconfig.get_path("platlib")) / "oneflow" / "lib")
    return [f / NAME for f in folders]


@functools.cache
def version() -> int:
    """The version of the SDK, from the headers of this package.

    Raises:
        FrameworkError: the headers are missing.
    """
    header = Path(oneflow.__file__).parent / "include" / HEADER
    if not header.is_file():
        raise FrameworkError(f"expected the headers of the SDK, {header}; install the package again")
    match = re.search(r"#define ONEFLOW_SDK_VERSION (\d+)", header.read_text(encoding="utf-8"))
    assert match is not None, header
    return int(match[1])


@functools.cache
def library_path() -> Path:
    """The path of the framework library.

    Raises:
        FrameworkError: the library is missing.
    """
    library = next((path for path in candidates() if path.is_file()), None)
    if library is None:
        raise FrameworkError(
            f"expected {NAME} in oneflow/lib or in the folder $ONEFLOW_SDK; build it with `pip install .` or "
            "`cmake -S sdk -B build/sdk && cmake --build build/sdk` in the source tree"
        )
    return library


@functools.cache
def library() -> ctypes.CDLL:
    """The framework library.

    Raises:
        FrameworkError: the library is missing, or of another version.
    """
    loaded = ctypes.CDLL(str(library_path()))
    built = loaded.oneflow_sdk_version()
    if built != version():
        raise FrameworkError(f"expected version {version()} of {library_path()}, got {built}; build it again")
    call = ctypes.POINTER(CallStruct)
    loaded.oneflow_sdk_result.restype = ctypes.c_char_p
    loaded.oneflow_sdk_open.argtypes = [ctypes.c_char_p]
    for name in ("infer", "sbp", "gradient", "kernel_matches", "kernel_in_place"):
        getattr(loaded, f"oneflow_sdk_{name}").argtypes = [call]
    sizes = ctypes.POINTER(ctypes.c_int64)
    loaded.oneflow_sdk_complexity.argtypes = [call]
    loaded.oneflow_sdk_nd_sbp_list.argtypes = [call, sizes, ctypes.c_int64]
    loaded.oneflow_sdk_nd_sbp_infer.argtypes = [call, sizes, ctypes.c_int64, sizes]
    loaded.oneflow_sdk_kernel_create.argtypes = [call, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)]
    loaded.oneflow_sdk_kernel_destroy.argtypes = [ctypes.c_void_p]
    loaded.oneflow_sdk_kernel_destroy.restype = None
    loaded.oneflow_sdk_reply.argtypes = [ctypes.c_char_p, ctypes.POINTER(TensorStruct), ctypes.c_int64]
    loaded.oneflow_sdk_reply.restype = None
    loaded.oneflow_sdk_function_call.argtypes = [
        ctypes.c_char_p, ctypes.POINTER(ArgumentStruct), ctypes.c_int64, Build
    ]  # fmt: skip
    loaded.oneflow_sdk_grad_function.argtypes = [call, ctypes.POINTER(TensorStruct), Build]
    return loaded


def last_result() -> str:
    """The result of the last call of this thread: JSON, or an error message."""
    return str(library().oneflow_sdk_result().decode("utf-8", "replace"))


def ask(name: str, *args: Any, failure: Callable[[str], Exception]) -> Any:
    """Calls `oneflow_sdk_<name>` and returns its decoded result.

    Raises:
        Exception: the call fails; `failure` creates the exception from the message.
    """
    status = getattr(library(), f"oneflow_sdk_{name}")(*args)
    text = last_result()
    if status != 0:
        raise failure(text)
    return json.loads(text) if text else None
