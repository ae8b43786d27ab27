"""The native library: the thread pool, memory and checks that compiled programs call, and batched kernel launches.

The library is searched at $ONEFLOW_NATIVE, next to this module, in the build folder of a source tree, and where an
editable installation puts it. The library is loaded once, with global symbols, since compiled objects find its
functions by name.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sysconfig
from pathlib import Path

NAME = "liboneflow_runtime.so"
VERSION = 5
#: The variable that sets the number of threads of parallel loops.
THREADS = "ONEFLOW_NUM_THREADS"


class NativeLibraryError(ImportError):
    """The native library is missing, or of another version."""


def candidates() -> list[Path]:
    """The paths at which the library is searched, in order."""
    folder = Path(__file__).resolve().parent
    installed = Path(sysconfig.get_path("platlib")) / "oneflow" / "runtime" / NAME
    path = os.environ.get("ONEFLOW_NATIVE")
    return [Path(path)] if path else [folder / NAME, folder / "native" / "build" / NAME, installed]


@functools.cache
def library() -> ctypes.CDLL:
    """The native library.

    Raises:
        NativeLibraryError: the library is missing, or of another version.
        ValueError: $ONEFLOW_NUM_THREADS is not a positive number.
    """
    _check_threads(os.environ.get(THREADS))
    for path in candidates():
        if path.is_file():
            return _checked(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL), path)
    raise NativeLibraryError(
        f"expected {NAME} in oneflow/runtime, or $ONEFLOW_NATIVE to be that file, got none at "
        f"{', '.join(map(str, candidates()))}; build it with `pip install .` in the source tree, or install "
        "oneflow-mlir again"
    )


def _check_threads(text: str | None) -> None:
    if text and not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"{THREADS}: expected a number of at least 1, got {text!r}")


def _checked(library: ctypes.CDLL, path: Path) -> ctypes.CDLL:
    library.oneflow_rt_version.restype = ctypes.c_int64
    version = library.oneflow_rt_version()
    if version != VERSION:
        raise NativeLibraryError(f"expected version {VERSION} of {path}, got {version}; install oneflow-mlir again")
    library.oneflow_rt_run.restype = ctypes.c_int64
    library.oneflow_rt_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.oneflow_rt_launch_all.restype = ctypes.c_int64
    library.oneflow_rt_launch_all.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.oneflow_rt_free.argtypes = [ctypes.c_void_p]
    library.oneflow_rt_free.restype = None
    library.oneflow_rt_threads.restype = ctypes.c_int64
    library.oneflow_rt_set_threads.argtypes = [ctypes.c_int64]
    return library


def num_threads() -> int:
    """The number of threads of a parallel loop: $ONEFLOW_NUM_THREADS, or the number of allowed processors."""
    return int(library().oneflow_rt_threads())


def set_num_threads(count: int) -> None:
    """Sets the number of threads of parallel loops. Results do not depend on it.

    Raises:
        ValueError: `count` is below 1.
    """
    if count < 1:
        raise ValueError(f"expected at least 1 thread, got {count}")
    library().oneflow_rt_set_threads(count)
