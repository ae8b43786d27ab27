"""Contexts and programs for the tests of SBP."""

import pytest

import oneflow.passes.all
from oneflow.dialect import ops
from oneflow.dialect.oneflow import create_context

REGISTERED = (ops, oneflow.passes.all)


@pytest.fixture(scope="session")
def context():
    """The context for all programs."""
    return create_context()
