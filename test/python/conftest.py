"""Fixtures and hooks of all tests.

Samples and helpers are importable by name. The random numbers of a test are independent of other tests. `change_gpu`
changes the GPU that programs are compiled for, `set_threads` the number of threads.
"""

import gc
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oneflow.lowering.targets.selection import gpu_target, using_gpu
from oneflow.runtime import native

ROOT = Path(__file__).parent
#: The folders of tests, which import helpers and each other by name. `samples` is a package.
FOLDERS = sorted({path.parent for path in ROOT.rglob("*.py")} - {ROOT / "samples"})
sys.path[:0] = map(str, FOLDERS)

#: Generators that modules keep as RNG, and their states before the first test.
FIRST = {}


def _generator(item):
    found = getattr(getattr(item, "module", None), "RNG", None)
    return found if isinstance(found, np.random.Generator) else None


def pytest_configure():
    """Collects no garbage while tests are collected: a test stays until the end.

    Processes that tests start keep the bytecode of the modules for each other: compilation takes as long as the rest
    of a start.
    """
    gc.disable()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish(session):
    """Saves the states of the generators, and hides the collected tests from the garbage collector."""
    gc.freeze()
    gc.enable()
    for item in session.items:
        rng = _generator(item)
        if rng is not None and id(rng) not in FIRST:
            FIRST[id(rng)] = rng.bit_generator.state


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Sets the module's generator back."""
    rng = _generator(item)
    if rng is not None:
        rng.bit_generator.state = FIRST[id(rng)]


@pytest.fixture
def change_gpu():
    """A function that changes the GPU target until the end of the test.

    `overrides` are fields of `MatmulOverrides`, `sms` is the number of SMs. Other arguments are rows of a fitted
    table, by the record of parameters: `launches={"max_fused_entry_calls": 0}`.
    """
    with ExitStack() as stack:

        def change(overrides=(), sms=None, **parameters):
            target = gpu_target()
            fitted = {name: {**target.fitted.get(name, {}), **values} for name, values in parameters.items()}
            overridden = replace(target.overrides, **dict(overrides))
            changed = replace(target, sms=sms or target.sms, fitted={**target.fitted, **fitted}, overrides=overridden)
            stack.enter_context(using_gpu(changed))

        yield change


@pytest.fixture
def set_threads():
    """A function that sets the number of threads until the end of the test."""
    before = native.num_threads()
    yield native.set_num_threads
    native.set_num_threads(before)
