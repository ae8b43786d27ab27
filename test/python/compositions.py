"""Random compositions of operators, and finite differences as the reference for gradients."""

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

STEP = 1e-6
#: The largest relative difference between the slopes on either side of a smooth point.
KINK = 1e-3
#: Shapes of the arguments; every two of the shapes broadcast.
SHAPES = ((2, 3), (3,), (2, 1), (), (1, 3))
#: Shapes of the arguments, the numbers that choose 3 to 12 operators, and the seed of the arguments.
COMPOSITIONS = {
    "shapes": st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
    "numbers": st.lists(st.integers(0, 2**20), min_size=64, max_size=64),
    "seed": st.integers(0, 2**16),
}


def drawn(shapes, seed):
    """Random arguments of the shapes."""
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.uniform(-1.5, 1.5, s)) for s in shapes]


def fits(x, y):
    """Whether the shapes of two arrays broadcast."""
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def composed(numbers, arguments, one, two):
    """The arguments, then 3 to 12 values that `numbers` choose, each the result of a rule on earlier values.

    `one` are the rules `rule(pick, x)`, `two` the rules `rule(pick, x, y)` of operands that broadcast.
    """
    rest = iter(numbers)

    def pick(options):
        return options[next(rest) % len(options)]

    values = list(arguments)
    for _ in range(pick(range(3, 13))):
        x, y = pick(values), pick(values)
        rule = pick((*one, *two) if fits(x, y) else one)
        values.append(rule(pick, x) if rule in one else rule(pick, x, y))
    return values


def differences(function, arrays):
    """Central differences of `function(*arrays)` by every element; cases with a kink within a step are given up."""
    found, middle = [], function(*arrays)
    for index, array in enumerate(arrays):
        slopes = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = array.copy()
                moved[at] += step
                ends.append(function(*arrays[:index], moved, *arrays[index + 1 :]))
            slopes[at] = slope = (ends[0] - ends[1]) / (2 * STEP)
            if abs(ends[0] - 2 * middle + ends[1]) > KINK * STEP * max(abs(slope), 1.0):
                reject()
        found.append(slopes)
    return found
