"""Samples of padding with values from inside the tensor."""

from oneflow.dialect.dtypes import FLOATS, bool_, int32
from oneflow.testing.sample import NUMERIC, Bad, Sample, t

#: Padding of 4 elements: both sides, one side, no side, the widest reflection, and negative padding.
WIDTHS = [(1, 2), (3, 3), (0, 2), (3, 0), (0, 0), (-1, 2), (2, -2), (-1, -1)]
PLANES = [(1, 2, 0, 1), (2, 0, 1, 1), (-1, 1, 2, -1)]


def padded(shape, padding):
    """The shape of padded images."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    return (*shape[:2], *(n + sum(pair) for n, pair in zip(shape[2:], pairs, strict=True)))


def both(kind, shape, padding, **more):
    """The operator and its gradient on images of a shape."""
    name, attrs = f"{kind}_pad{len(shape) - 2}d", {"padding": list(padding)}
    whole = padded(shape, padding)
    return [Sample(name, [t(*shape)], attrs, **more), Sample(f"{name}_grad", [t(*whole)], attrs, **more)]


KINDS = ("reflection", "replication")
SAMPLES = [
    *(s for kind in KINDS for pair in WIDTHS for s in both(kind, (1, 2, 4), pair)),
    *(s for kind in KINDS for padding in PLANES for s in both(kind, (2, 3, 3, 4), padding)),
    *(s for kind in KINDS for s in both(kind, (1, 2, 3), (1, 2), dtypes=FLOATS)),
    *(s for kind in KINDS for s in both(kind, (1, 2, 3, 2), (1, 0, 1, 2), dtypes=FLOATS)),
    *(s for kind in KINDS for s in both(kind, (0, 2, 3), (1, 2))),
    *(s for kind in KINDS for s in both(kind, (0, 2, 3, 3), (1, 2, 1, 1))),
    *both("replication", (2, 1, 1), (3, 2)),
    *both("replication", (1, 2, 1, 2), (4, 3, 2, 1)),
    *(Sample(f"{kind}_pad1d", [t(1, 2, 4)], {"padding": [2, 1]}, dtypes=NUMERIC) for kind in KINDS),
    *(Sample(f"{kind}_pad2d", [t(1, 1, 2, 3)], {"padding": [2, 1, 1, 0]}, dtypes=(int32,)) for kind in KINDS),
]
BAD = [
    Bad("reflection_pad1d", [t(1, 2, 3)], {"padding": [1]}, match="expected 2 numbers in padding, got [1]"),
    Bad(
        "reflection_pad1d", [t(1, 2, 3)], {"padding": [0, 3]}, match="expected spatial sizes of at least 4 to pad by"
    ),
    Bad("reflection_pad2d", [t(2, 3, 3)], {"padding": [1, 1, 1, 1]}, match="expected x of rank 4"),
    Bad(
        "reflection_pad2d_grad",
        [t(1, 2, 4, 9)],
        {"padding": [3, 4, 0, 0]},
        match="expected spatial sizes of at least",
    ),
    Bad(
        "replication_pad1d", [t(1, 2, 0)], {"padding": [1, 1]}, match="expected spatial sizes of at least 1 to pad by"
    ),
    Bad("replication_pad1d", [t(1, 2, 3)], {"padding": [-2, -1]}, match="expected padding that leaves elements of 3"),
    Bad("replication_pad2d", [t(1, 2, 3, 3)], {"padding": [1, 1]}, match="expected 4 numbers in padding"),
    Bad("replication_pad2d", [t(1, 2, 3, 3)], {"padding": [1] * 4}, dtype=bool_, match="expected x of type ui8"),
    Bad("replication_pad1d_grad", [t(1, 2, 5)], {"padding": [1, 1]}, dtype=int32, match="expected dy of type f16"),
]
