"""The classic layouts move the fewest bytes, both in the plan of boxing and in the programs of the ranks."""

import pytest
from interpreter import functions, run
from sbp_programs import check_distributed, run_passes

from oneflow.testing.layouts import LAYOUTS, arrays_for, physical_bytes, planned_bytes

#: A machine on which the number of bytes determines the cost.
OPTIONS = {"greedy": "strategy=greedy", "auto": "strategy=auto latency=0 compute=1e9"}


@pytest.mark.parametrize("strategy", OPTIONS)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", LAYOUTS)
def test_fewest_bytes(name, ranks, strategy, context):
    """Annotated arguments and results suffice, for either strategy."""
    with context:
        module = LAYOUTS[name].module(ranks)
        run_passes(module, f"oneflow-infer-sbp{{{OPTIONS[strategy]}}}", "oneflow-insert-boxing")
        assert planned_bytes(module) == physical_bytes(module) == LAYOUTS[name].fewest_bytes(ranks)
        run_passes(module, "oneflow-join-boxing")
        assert planned_bytes(module) == physical_bytes(module) == LAYOUTS[name].fewest_bytes(ranks)


@pytest.mark.parametrize("name", LAYOUTS)
def test_ranks_compute_the_results_of_one_device(name, context):
    """All ranks together compute the results of one device."""
    layout = LAYOUTS[name]
    with context:
        module, arrays = layout.module(2), arrays_for(layout)
        want = run(functions(module)["main"], arrays)
        run_passes(module, "oneflow-infer-sbp", "oneflow-insert-boxing", "oneflow-join-boxing")
        check_distributed(module, arrays, want, tolerance=1e-4)


def test_ranks_that_do_not_divide_the_heads(context):
    """Heads are split where the number of devices divides theirs; otherwise attention still is right."""
    layout = LAYOUTS["Megatron attention"]
    with context:
        module, arrays = layout.module(3), arrays_for(layout)
        want = run(functions(module)["main"], arrays)
        run_passes(module, "oneflow-infer-sbp", "oneflow-insert-boxing")
        assert planned_bytes(module) > layout.fewest_bytes(3)
        check_distributed(module, arrays, want, tolerance=1e-4)
