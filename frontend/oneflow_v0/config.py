"""Settings of the process: `flow.config`."""

from __future__ import annotations

from pathlib import Path

from oneflow.frontend.functional_c import FUNCTIONS
from oneflow.frontend.oneflow_v0 import jobs
from oneflow.runtime import cache
from oneflow.runtime.user_ops import bounds_checks, library


def load_library(path: str | Path) -> None:
    """Registers the operators of a library that was built with the flags of `flow.sysconfig`; a second time does
    nothing.

    Raises:
        LibraryError: the library cannot be loaded; the message says why.
    """
    library.load_library(path)


def load_functional_api(path: str | Path) -> None:
    """Adds the functions that a `functional_api.yaml` declares to `flow._C`.

    Raises:
        FunctionalApiError: the file is not well formed; file and line are named.
    """
    FUNCTIONS.load(path)


def enable_debug_mode(on: bool = True) -> None:
    """Runs kernels of users, in libraries and in C source, on buffers with red zones.

    A write out of bounds or to an input is an error. $ONEFLOW_DEBUG=1 turns the mode on from the start.
    """
    bounds_checks.check_bounds(on)


def gpu_device_num(count: int) -> None:
    """Sets how many GPUs jobs may use; with 0, jobs without a scope run on the CPU.

    Raises:
        ValueError: `count` is below 0.
    """
    jobs.allow_gpus(count)


def cpu_device_num(count: int) -> None:
    """Checks the number of CPU devices that an older program asks for: 1, which uses every core.

    Raises:
        ValueError: `count` is another.
    """
    if count != 1:
        raise ValueError(
            f"expected 1 CPU device, got {count}; $ONEFLOW_NUM_THREADS is the number of cores that it uses"
        )


def cache_size(size: int | str | None) -> None:
    """Limits the bytes of compiled programs on disk: a number, or text such as "500M" or "2G".

    The least recently used programs are deleted. 0 keeps nothing; None is $ONEFLOW_CACHE_SIZE, or 2 GiB.

    Raises:
        ValueError: `size` is no size.
    """
    cache.set_limit(size)
