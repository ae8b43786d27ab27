"""Compiles the libraries of operators in `libraries/` once for all tests.

A process loads a library once: fixtures that do are of the session, since modules may be left and come back to.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.record import REGISTRY, Registry
from oneflow.frontend import sysconfig
from oneflow.runtime.user_ops.library import load_library

HEADER = "oneflow/core/framework/framework.h"
SOURCES = Path(__file__).parent / "libraries"


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """`build(name, text)` compiles C++ text, or the file of that name in `libraries/`, into a library."""
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler, "expected a C++ compiler: the tests of the SDK compile operators"
    folder = tmp_path_factory.mktemp("sdk")
    flags = ["-std=c++11", "-O0", "-fPIC", "-shared", *sysconfig.get_compile_flags()]
    flags.append("-std=c++11")
    precompiled = folder / HEADER
    precompiled.parent.mkdir(parents=True)
    header = Path(sysconfig.get_include()) / HEADER
    subprocess.run([compiler, "-x", "c++-header", str(header), "-o", f"{precompiled}.gch", *flags], check=True)
    flags = [f"-I{folder}", "-Wall", "-Werror", *flags, *sysconfig.get_link_flags()]

    def make(name: str, text: str | None = None) -> Path:
        source, library = folder / f"{name}.cpp", folder / f"{name}.so"
        source.write_text(text if text is not None else (SOURCES / f"{name}.cpp").read_text())
        subprocess.run([compiler, str(source), "-o", str(library), *flags], check=True)
        return library

    return make


@pytest.fixture(scope="session")
def load(build):
    """`load(name)` builds a library and returns a registry of all operators, the library's included."""

    def make(name: str, text: str | None = None) -> Registry:
        registry = Registry(dict(REGISTRY.operators))
        load_library(build(name, text), registry)
        return registry

    return make


@pytest.fixture(scope="session")
def sampler(load):
    """The registry with the operators of libraries/sampler.cpp."""
    return load("sampler")


@pytest.fixture(scope="session")
def failing(load):
    """The registry with the operator of libraries/failing_operator.cpp, which fails in every way."""
    return load("failing_operator")


@pytest.fixture(scope="session")
def with_functions(load):
    """The registry with the operators of libraries/functions.cpp."""
    return load("functions")


@pytest.fixture
def ops(sampler):
    """A builder that computes with NumPy and knows the operators of libraries/sampler.cpp."""
    return NumpyBuilder(sampler)
