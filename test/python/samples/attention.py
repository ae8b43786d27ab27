"""Samples of attention."""

from typing import Any

from oneflow.dialect.dtypes import FLOATS, bfloat16, float16, float32, int64
from oneflow.testing.sample import Bad, Sample, T, t, v

NAN = float("nan")


class Wide(T):
    """An operand in the type that sums are computed in: f32 where the sample runs with f16 or bf16."""

    def array(self, dtype, rng):
        return super().array(dtype.accumulator, rng)


def row(*shape):
    """Statistics of rows, of a size that keeps weights below 1."""
    return Wide(shape, 3.0, 4.0)


HEADS = "expected static numbers of heads, query's a multiple of key's, got 3 of query and 2 of key"
PLAIN = [t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 4)]
SHARED = [t(2, 4, 3, 2), t(2, 2, 3, 2), t(2, 2, 3, 3)]
#: Heads in groups of two, and all heads in one group.
SPLIT: dict[str, Any] = {"gradient": False, "why": "for signatures; gradients are as with fewer heads"}
TWELVE = [t(1, 12, 2, 2), t(1, 6, 3, 2), t(1, 6, 3, 2)]
ONE = [t(1, 3, 3, 2), t(1, 1, 3, 2), t(1, 1, 3, 2)]

INF = float("inf")
#: Masks that hide all keys of one row, and of every row of a batch.
UNSEEN = v([[0, -INF, 0, 0, -1], [-INF] * 5, [0, 0, 0, -INF, 0]])
UNSEEN_KEYS = v([[[[0, 0, -INF]]], [[[-INF] * 3]]])
FLAT = "infinite masks and sums of exponentials have no differences"
#: A mask in f32, for every type of the query.
WIDE = Wide((1, 1, 70, 70))
#: Calls of several blocks: key groups, the number of keys, a mask, whether attention is causal.
BLOCKS = [(4, 70, [], True), (2, 100, [], False), (2, 70, [t(70, 70)], True), (1, 130, [t(1, 4, 1, 130)], False),
          (4, 70, [WIDE], False)]  # fmt: skip
HALVES = (float16, bfloat16)
WHOLE: dict[str, Any] = {"gradient": False, "why": "only for devices that have kernels for 16-bit floats"}
#: Logarithms of sums of about a hundred weights.
WEIGHED = Wide((1, 4, 70), 7.0, 8.0)

#: Large products with small differences, which f16 and bf16 would round to other weights.
ABOUT_3: dict[str, Any] = {"low": 2.0, "high": 4.0}
ABOUT_4: dict[str, Any] = {"low": 3.0, "high": 4.0}
STEEP = [t(1, 2, 8, 4, **ABOUT_3), t(1, 2, 16, 4, **ABOUT_4), t(1, 2, 16, 4, **ABOUT_4)]
STEEP_ROWS = [Wide((1, 2, 8), 24.0, 26.0), Wide((1, 2, 8), 40.0, 44.0)]
ROUNDED: dict[str, Any] = {"dtypes": (bfloat16, float16), "gradient": False, "why": "only for scores of 16 bits"}

#: Dropped weights: by the seed, by the offset of the seed, and by the position of a device's part.
DROPPED: dict[str, Any] = {"rate": 0.3, "seed": 11}
PART = {**DROPPED, "logical_shape": [2, 6, 5, 7], "logical_begin": [1, 2, 0, 1]}
OFFSET = t(1, dtype=int64)


def _blocks(heads, size, mask, causal, **more):
    """A call of several blocks, and the call of the gradients."""
    given = [t(1, 4, 70, 16), t(1, heads, size, 16), t(1, heads, size, 8)]
    attributes = {"scale": 0.25, "causal": causal, **more}
    rest = [*(mask or [None]), None, WEIGHED, Wide((1, 4, 70))]
    yield Sample("attention", [*given, *mask], attributes, dtypes=HALVES, **WHOLE)
    yield Sample("attention_grad", [t(1, 4, 70, 8), *given, *rest], attributes, dtypes=HALVES, **WHOLE)


SAMPLES = [
    Sample("attention", PLAIN, {"scale": 0.5}, dtypes=FLOATS),
    Sample("attention", PLAIN, {"scale": 0.5, "causal": True}),
    Sample("attention", [*PLAIN, t(3, 5)], {"scale": 0.5}),
    Sample("attention", [*SHARED, t(2, 1, 3, 3)], {"scale": 0.7, "causal": True}),
    Sample("attention", SHARED),
    Sample("attention", [*PLAIN, Wide((1, 2, 1, 5))], {"scale": 0.5}, dtypes=FLOATS),
    Sample("attention", [*PLAIN, UNSEEN], {"scale": 0.5}, dtypes=FLOATS, gradient=False, why=FLAT),
    Sample("attention", [*SHARED, UNSEEN_KEYS], {"causal": True}, gradient=False, why=FLAT),
    Sample("attention", [t(1, 2, 3, 4), *[t(1, 2, 0, 4)] * 2], gradient=False, why=FLAT),
    Sample("attention", [t(1, 2, 0, 4)] * 3, {"causal": True}),
    Sample("attention", PLAIN, DROPPED),
    Sample("attention", [*SHARED, None, OFFSET], {**DROPPED, "causal": True}),
    Sample("attention", PLAIN, PART),
    Sample(
        "attention_grad",
        [t(1, 2, 3, 4), *PLAIN, None, None, row(1, 2, 3), row(1, 2, 3)],
        {"scale": 0.5},
        dtypes=FLOATS,
    ),
    Sample(
        "attention_grad",
        [t(1, 2, 3, 4), *PLAIN, UNSEEN, None, Wide((1, 2, 3), values=[3, -INF, 4] * 2), row(1, 2, 3)],
        gradient=False,
        why=FLAT,
    ),
    Sample("attention_grad", [t(2, 4, 3, 3), *SHARED, t(3, 3), None, row(2, 4, 3), row(2, 4, 3)], {"causal": True}),
    Sample("attention_grad", [t(1, 2, 3, 4), *PLAIN, None, OFFSET, row(1, 2, 3), row(1, 2, 3)], DROPPED),
    Sample("attention", TWELVE, **SPLIT),
    Sample("attention_grad", [t(1, 12, 2, 2), *TWELVE, None, None, row(1, 12, 2), row(1, 12, 2)], **SPLIT),
    Sample("attention", [*ONE, t(1, 3, 1, 3)], **SPLIT),
    Sample("attention_grad", [t(1, 3, 3, 2), *ONE, t(1, 3, 1, 3), None, row(1, 3, 3), row(1, 3, 3)], **SPLIT),
    *(sample for block in BLOCKS for sample in _blocks(*block)),
    *_blocks(2, 100, [], False, **DROPPED),
    Sample("attention", [*STEEP[:2], t(1, 2, 16, 4)], {"scale": 2.0}, **ROUNDED),
    Sample("attention_grad", [STEEP[0], *STEEP, None, None, *STEEP_ROWS], {"scale": 0.5}, **ROUNDED),
]
BAD = [
    Bad("attention", PLAIN, {"rate": 1.5}, match="expected a rate of 0 to 1, got 1.5"),
    Bad("attention", [*PLAIN, None, t(2, dtype=int64)], match="expected offset of one element"),
    Bad("attention", [t(2, 3, 4), *PLAIN[1:]], match="expected query of rank 4"),
    Bad("attention", [t(1, 2, 3, 5), *PLAIN[1:]], match="expected the width of key to be 5, got 4"),
    Bad("attention", [PLAIN[0], PLAIN[1], t(1, 2, 4, 4)], match="expected the length of value to be 5, got 4"),
    Bad(
        "attention",
        [t(1, 3, 3, 4), *PLAIN[1:]],
        match=HEADS,
    ),
    Bad("attention", [*PLAIN, t(2, 2, 3, 5)], match="expected a mask that broadcasts to [1, 2, 3, 5]"),
    Bad(
        "attention_grad",
        [t(1, 2, 3, 4), *PLAIN, None, None, t(1, 2, 4, dtype=float32), row(1, 2, 3)],
        match="expected logsumexp of type tensor<1x2x3xf32>",
    ),
]
