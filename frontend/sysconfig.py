"""Flags for compiling libraries of operators: `flow.sysconfig`.

    g++ -std=c++11 -shared -fPIC op.cpp -o op.so $(python -c "import oneflow as flow; print(' '.join(
        flow.sysconfig.get_compile_flags() + flow.sysconfig.get_link_flags()))")

Imports the place of the framework library.
"""

from __future__ import annotations

from pathlib import Path

import oneflow
from oneflow.runtime.user_ops import framework


def get_include() -> str:
    """The folder of the headers."""
    return str(Path(oneflow.__file__).parent / "include")


def get_lib() -> str:
    """The folder of the library that operators link.

    Raises:
        FrameworkError: it is not there.
    """
    return str(framework.library_path().parent)


def get_compile_flags() -> list[str]:
    """What a compiler needs besides `-fPIC` and the language standard (C++11 or later)."""
    return [f"-I{get_include()}", "-D_GLIBCXX_USE_CXX11_ABI=1"]


def get_link_flags() -> list[str]:
    """What a linker needs besides `-shared`.

    Raises:
        FrameworkError: the library is not there.
    """
    name = framework.NAME.removeprefix("lib").removesuffix(".so")
    return [f"-L{get_lib()}", f"-l{name}", f"-Wl,-rpath,{get_lib()}"]
