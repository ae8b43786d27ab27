"""Makes the helpers importable, and a device of host memory."""

import sys
from pathlib import Path

import pytest

from oneflow.testing.host_cuda import host_cuda

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """A device of host memory, whose programs are compiled anew."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda() as made:
        yield made
