"""Spans of memory that overlap, against a comparison of every pair."""

import itertools
import random
from typing import Any

from oneflow.runtime.spans import SpanMap, Spans, overlap, overlapping_pairs


def drawn(count, seed):
    made = random.Random(seed)
    begins = [made.randrange(60) for _ in range(count)]
    return [(made.choice([None, "device"]), at, at + made.choice([0, 1, 4, 15])) for at in begins]


def test_overlaps_equal_those_of_all_comparisons():
    for seed in range(200):
        spans = drawn(seed % 9, seed)
        pairs = itertools.combinations(range(len(spans)), 2)
        wanted = [(a, b) for a, b in pairs if set(range(*spans[a][1:])) & set(range(*spans[b][1:]))]
        assert sorted(overlapping_pairs(spans)) == [(a, b) for a, b in wanted if spans[a][0] == spans[b][0]]
        placed: Any = SpanMap()
        for index, span in enumerate(spans):
            placed.add(span, index)
        for one in drawn(5, seed + 1000):
            assert sorted(placed.find(one)) == [n for n, other in enumerate(spans) if overlap(one, other)]
            assert Spans(spans).overlaps(one) == any(overlap(one, other) for other in spans)
