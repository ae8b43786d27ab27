"""Flags for compiling libraries of operators: `flow.sysconfig`.

g++ -std=c++11 -shared -fPIC op.cpp -o op.so $(python -c "import oneflow as flow; print(' '.join(
    flow.sysconfig.get_compile_flags() + flow.sysconfig.get_link_flags()))")
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import oneflow
from oneflow.runtime.user_ops import framework

__all__ = [
    "get_compile_flags", "get_cuda_version", "get_include", "get_lib", "get_liboneflow_link_flags", "get_link_flags",
    "with_cuda", "with_mlir", "with_mlir_cuda_codegen", "with_rdma",
]  # fmt: skip


def get_include() -> str:
    """The folder of the headers."""
    return str(Path(oneflow.__file__).parent / "include")


def get_lib() -> str:
    """The folder of the library that operators link.

    Raises:
        FrameworkError: the folder is missing.
    """
    return str(framework.library_path().parent)


def get_compile_flags() -> list[str]:
    """Compiler flags besides `-fPIC` and the language standard.

    The headers need C++11, CUDA 13's headers need C++17. With nvcc, the flags request C++17: of several `-std`
    compilers use the last.
    """
    cuda = ["-DWITH_CUDA", "-std=c++17"] if with_cuda() else []
    return [f"-I{get_include()}", "-D_GLIBCXX_USE_CXX11_ABI=1", *cuda]


def with_cuda() -> bool:
    """Whether a compiler for CUDA kernels is installed."""
    return shutil.which("nvcc") is not None


def with_mlir() -> bool:
    """Whether programs are compiled by MLIR: always true."""
    return True


def with_mlir_cuda_codegen() -> bool:
    """Whether programs are compiled for CUDA devices by MLIR and Triton; always true."""
    return True


def with_rdma() -> bool:
    """Whether OneFlow's RDMA transport exists: false, since MPI and NCCL have their own."""
    return False


def get_cuda_version() -> int:
    """The version of the CUDA compiler, 13000 for 13.0; 0 without a compiler."""
    nvcc = shutil.which("nvcc")
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout if nvcc else ""
    match = re.search(r"release (\d+)\.(\d+)", text)
    return 1000 * int(match[1]) + 10 * int(match[2]) if match else 0


def get_liboneflow_link_flags() -> list[str]:
    """The same as `get_link_flags`: there is one library.

    Raises:
        FrameworkError: the library is not there.
    """
    return get_link_flags()


def get_link_flags() -> list[str]:
    """Linker flags besides `-shared`.

    Raises:
        FrameworkError: the library is not there.
    """
    name = framework.NAME.removeprefix("lib").removesuffix(".so")
    cuda = [flag for folder in _cuda_libraries() for flag in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    return [f"-L{get_lib()}", f"-l{name}", f"-Wl,-rpath,{get_lib()}", *cuda]


def _cuda_libraries() -> list[Path]:
    """The folder of CUDA's libraries, if it exists."""
    nvcc = shutil.which("nvcc")
    roots = [os.environ.get("CUDA_HOME"), nvcc and Path(nvcc).resolve().parents[1], "/usr/local/cuda"]
    roots += sorted(Path("/usr/local").glob("cuda-*"), reverse=True)
    folders = [Path(root) / "lib64" for root in roots if root]
    return [f for f in folders if (f / "libcudart.so").exists()][:1] if nvcc else []
