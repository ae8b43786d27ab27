"""Makes the helpers importable; messages without source lines; a device of host memory."""

import sys
from pathlib import Path

import pytest

from oneflow.frontend.core import errors
from oneflow.testing.host_cuda import host_cuda

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def source_lines():
    """Messages show the user's line of source, as outside of tests."""


@pytest.fixture(autouse=True)
def _no_source_lines(request, monkeypatch):
    """Messages show no source: a line of a table would contain the text that the table expects."""
    if "source_lines" not in request.fixturenames:
        monkeypatch.setattr(errors, "getline", lambda file, line: "")


@pytest.fixture
def cuda(tmp_path, monkeypatch):
    """A device of host memory, whose programs are compiled anew."""
    monkeypatch.setenv("ONEFLOW_CACHE_DIR", str(tmp_path))
    with host_cuda() as made:
        yield made
