"""Annotations of any kind are understood or refused with a message; nothing else happens."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sbp_programs import run_passes

from oneflow.dialect.reader import ProgramError, read_module
from oneflow.passes.pipeline import PipelineFailure

ATTRIBUTES = [
    "unit",
    "7",
    '"S(0)"',
    "[]",
    "[[]]",
    "[[], []]",
    "#sbp.split<0>",
    "#sbp.split<-1>",
    "#sbp.split<9223372036854775807>",
    "[#sbp.split<0>]",
    "[#sbp.split<3>]",
    '["S(1)"]',
    '["S(x)", 3]',
    "[[#sbp.partial_sum]]",
    "[[#sbp.broadcast], [#sbp.broadcast]]",
    "[#sbp.broadcast, #sbp.split<0>]",
    "array<i64: 2>",
    "array<i32: 2, 2>",
    "array<i64: -1>",
    "array<i64: 1000000, 1000000>",
    "dense<1> : tensor<2xi64>",
    "{}",
]
LOCATIONS = ["mesh", "argument", "result", "in", "out", "cast"]


def program(given):
    """A program with attributes at some locations."""
    text = {p: given.get(p) for p in LOCATIONS}
    mesh = text["mesh"] or "array<i64: 2>"
    notes = {p: f"{{oneflow.nd_sbp = {a}}}" if (a := text[p]) else "" for p in ("argument", "result")}
    attrs = [f"oneflow.{p}_nd_sbp = {text[p]}" for p in ("in", "out") if text[p]]
    return f"""
    module attributes {{oneflow.mesh = {mesh}}} {{
      func.func @main(%x: tensor<4x3xf32> {notes["argument"]}) -> (tensor<4x3xf32> {notes["result"]}) {{
        %0 = "oneflow.relu"(%x) {{{", ".join(attrs)}}} : (tensor<4x3xf32>) -> tensor<4x3xf32>
        %1 = "oneflow.hierarchical_parallel_cast"(%0) {{nd_sbp = {text["cast"] or "[#sbp.broadcast]"}}}
          : (tensor<4x3xf32>) -> tensor<4x3xf32>
        return %1 : tensor<4x3xf32>
      }}
    }}"""


def check(locations, passes, context):
    with context:
        try:
            run_passes(read_module(program(locations), context), *passes)
        except (PipelineFailure, ProgramError) as error:
            assert "error: " in str(error)


ALL = ("oneflow-infer-sbp", "oneflow-insert-boxing", "oneflow-to-physical{rank=1}")


@pytest.mark.parametrize("location", LOCATIONS)
def test_single_bad_annotation(location, context):
    """Every attribute at every location, for every pass first."""
    for attribute, first in itertools.product(ATTRIBUTES, range(3)):
        check({location: attribute}, ALL[first:], context)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(locations=st.dictionaries(st.sampled_from(LOCATIONS), st.sampled_from(ATTRIBUTES)), first=st.integers(0, 2))
def test_several_bad_annotations(locations, first, context):
    """Several at once."""
    check(locations, ALL[first:], context)
