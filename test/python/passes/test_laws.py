"""Every law has a function in the lit table: a law applied alone changes the function but no value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from interpreter import functions, random_arguments, run

import oneflow.dialect.ops  # noqa: F401  registers the operators
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.passes.base import PassError
from oneflow.passes.canonicalize import Canonicalize, law_names

TABLE = (Path(__file__).parents[2] / "lit" / "passes" / "canonicalize" / "law_table.mlir").read_text()
CONTEXT = create_context()


def test_law_names_are_distinct() -> None:
    """Names of laws are unique, since an option restricts the pass by name."""
    names = [law.name for record in REGISTRY for law in record.laws]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(law_names(REGISTRY)))
def test_law_keeps_values(name: str) -> None:
    """The law holds bit for bit, zeros of both signs and NaN included."""
    before, after = (read_module(TABLE, CONTEXT) for _ in range(2))
    assert name in functions(before), f"law {name} has no function in law_table.mlir"
    with CONTEXT:
        Canonicalize(laws=(name,)).run(after, REGISTRY)
        assert after.operation.verify()
        old, new = functions(before)[name], functions(after)[name]
        assert str(old) != str(new), f"law {name} did not apply to its function"
        arrays = random_arguments(old, np.random.default_rng(0))
        for want, got in zip(run(old, arrays), run(new, arrays), strict=True):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_the_table_of_laws_has_a_fixed_order() -> None:
    """A second run changes nothing."""
    module = read_module(TABLE, CONTEXT)
    with CONTEXT:
        Canonicalize().run(module, REGISTRY)
        once = str(module)
        Canonicalize().run(module, REGISTRY)
    assert str(module) == once


def test_unknown_law_is_named() -> None:
    """The nearest name is suggested."""
    module = read_module(TABLE, CONTEXT)
    with CONTEXT, pytest.raises(PassError, match="unknown law relu-idempotence; did you mean relu-idempotent"):
        Canonicalize(laws=("relu-idempotence",)).run(module, REGISTRY)
