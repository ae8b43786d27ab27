"""Makes the samples and helpers importable by name, and the random numbers of a test independent of other tests."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent
#: The folders of tests, which import helpers and each other by name. `samples` is a package.
FOLDERS = sorted({path.parent for path in ROOT.rglob("*.py")} - {ROOT / "samples"})
sys.path[:0] = map(str, FOLDERS)

#: Generators that modules keep as RNG, and their states before the first test.
FIRST = {}


def _generator(item):
    found = getattr(getattr(item, "module", None), "RNG", None)
    return found if isinstance(found, np.random.Generator) else None


def pytest_collection_finish(session):
    """Notes where the generators stand."""
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
