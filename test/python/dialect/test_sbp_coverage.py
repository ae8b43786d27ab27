"""Every kind of SBP signature that the samples of an operator offer is computed on one of them at least."""

import pytest
from samples import SAMPLES

from oneflow.dialect import ops  # noqa: F401  (registers the operators)
from oneflow.testing.checks import check_sbp, described, sbp_case


def kinds(signatures):
    """Signatures without the numbers of their axes: `S, B -> S`."""
    sides = ((", ".join(x.kind for x in side) for side in (s.inputs, s.outputs)) for s in signatures)
    return {" -> ".join(side) for side in sides}


@pytest.mark.parametrize("name", sorted({s.op for s in SAMPLES}))
def test_every_kind_of_signature_is_computed(name):
    computed, offered = set(), set()
    for sample in (s for s in SAMPLES if s.op == name):
        op = sbp_case(sample)
        found = kinds(op.record.signatures(described(op)))
        if found - computed:
            computed |= kinds(check_sbp(sample))
        offered |= found
    missing = offered - computed
    assert not missing, f"no sample of {name} can be cut for {sorted(missing)}; add one with sizes of 2 or more"
