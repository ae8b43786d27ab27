"""Dependences of commands: all earlier accesses to the same memory, unless both accesses are reads."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest

from oneflow.runtime.cuda.script import OFFSET_MASK, Recorder, dependencies_of


def conflict(a, b):
    return any((x[3] or y[3]) and x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x, y in itertools.product(a, b))


def access(choose):
    start = choose.randrange(20)
    end = OFFSET_MASK if choose.random() < 0.1 else start + choose.randrange(1, 12)
    return choose.randrange(3), start, end, choose.random() < 0.4


@pytest.mark.parametrize("seed", range(20))
def test_conflicting_commands_wait_for_each_other(seed):
    choose = random.Random(seed)
    commands = [[access(choose) for _ in range(choose.randrange(4))] for _ in range(60)]
    order, before = dependencies_of(commands), list[Any]()
    for index, waits in enumerate(order):
        assert all(n < index and conflict(commands[n], commands[index]) for n in waits)
        assert not any(n in before[m] for n in waits for m in waits)
        before.append(set(waits).union(*(before[n] for n in waits)))
        wanted = {n for n in range(index) if conflict(commands[n], commands[index])}
        assert wanted <= before[index]


def test_the_number_of_dependencies_is_linear():
    """Readers of memory that was written again since are named no more."""
    commands = [[(0, 0, 8, n % 10 == 9)] for n in range(1000)]
    assert sum(map(len, dependencies_of(commands))) <= 2 * 1000


def test_empty_accesses_have_no_dependencies():
    assert dependencies_of([[(0, 0, 8, True)], [(0, 4, 4, True)], [(0, 0, 8, False)]]) == ((), (), (0,))


def test_parts_do_not_have_the_sizes_of_earlier_temporaries():
    """A step of a loop writes a part of a tensor at an address where a smaller temporary was before."""
    no_program: Any = None
    run = Recorder(no_program, {})
    run.at(64, 16)
    run.copy(run.part(run.at(0, 256), 64), run.region_address("argument"), 128)
    run.copy(run.region_address("result"), run.at(128, 64), 64)
    assert dependencies_of(run.accessed) == ((), (0,))


@pytest.mark.parametrize("commands", [0, 64])
def test_temporaries_that_no_command_accesses(commands):
    """A kernel without elements is not launched, before the first command and later."""
    program: Any = SimpleNamespace(workspace=0)
    run = Recorder(program, {})
    for _ in range(commands):
        run.copy(run.region_address("result"), run.region_address("argument"), 8)
    run.release(run.temporary(256))
    assert len(run.script().commands) == commands
