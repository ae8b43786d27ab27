"""Every SBP signature of every sample, shard by shard; each kind of signature is computed on at least one sample."""

from typing import Any

import pytest
from each_case import by_operator, each
from samples import SAMPLES

from oneflow.dialect import ops  # noqa: F401  (registers the operators)
from oneflow.dialect.record import REGISTRY, Absent
from oneflow.dialect.sbp import Factors
from oneflow.testing.checks import check_sbp, described, sbp_case


def kinds(signatures):
    """Signatures without the numbers of the axes: `S, B -> S`."""
    sides = ((", ".join(x.kind for x in side) for side in (s.inputs, s.outputs)) for s in signatures)
    return {" -> ".join(side) for side in sides}


def check(sample, computed, offered):
    """Checks the signatures of a sample; adds the kinds of computed and of offered signatures."""
    op = sbp_case(sample)
    offered.update(kinds(op.record.signatures(described(op))))
    computed.update(kinds(check_sbp(sample)))


SAMPLES_OF = by_operator(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES_OF)
def test_every_kind_of_signature_is_computed(name):
    computed, offered = set[Any](), set[Any]()
    each([(s,) for s in SAMPLES_OF[name]], check, computed, offered)
    missing = offered - computed
    assert not missing, f"no sample of {name} can be cut for {sorted(missing)}; add one with sizes of 2 or more"


def test_most_rules_are_factors():
    """A rule is a list of signatures only where factors cannot state it, such as maxima of shards."""
    cases = {s.op: s for s in reversed(SAMPLES)}
    rules = {name: sbp_case(s) for name, s in cases.items() if not isinstance(REGISTRY[name].sbp, Absent)}
    listed = [n for n, op in rules.items() if not isinstance(rule_of(op), Factors)]
    assert len(rules) > 500 and len(listed) <= 0.08 * len(rules), f"rules that are not factors: {sorted(listed)}"


def rule_of(op):
    """The result of the rule of a call, without the signatures that every operator has."""
    rule = op.record.sbp
    return rule if isinstance(rule, Factors) else rule(described(op))
