"""Fitted parameters: measured values that replace parameters derived from the facts of a target.

A table has a row for each record of parameters, with the fields that were measured:

    {"loops": {"chunk_steps": 8192}, "contractions": {"max_tile_rows": 14}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

T = TypeVar("T")
#: Values of fields by the name of the field, by the name of the record.
Fitted = Mapping[str, Mapping[str, Any]]


def with_fitted(derived: T, fitted: Fitted) -> T:
    """A record of records, `derived`, with the values of a fitted table.

    Raises:
        TypeError: the table names a field that the record does not have.
    """
    changed = {name: replace(getattr(derived, name), **values) for name, values in fitted.items()}
    return replace(derived, **changed)  # type: ignore[type-var]
