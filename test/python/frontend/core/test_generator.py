"""Generators of seeds: the sequence, its state, and generators that threads share."""

import threading
from typing import Any

import oneflow as flow


def splitmix64(state: int, count: int) -> list[int]:
    """The first numbers of SplitMix64 (Steele, Lea and Flood, 2014), one after the other."""
    word, numbers = (1 << 64) - 1, []
    for _ in range(count):
        state = state + 0x9E3779B97F4A7C15 & word
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & word
        z = (z ^ z >> 27) * 0x94D049BB133111EB & word
        numbers.append(z ^ z >> 31)
    return numbers


def test_seeds_are_the_upper_bits_of_splitmix64() -> None:
    assert splitmix64(0, 1) == [0xE220A8397B1DCDAF]  # the published first number
    for start in (0, 1234567, 2**64 - 1, -3, 2**70 + 5):
        generator = flow.Generator().manual_seed(start)
        assert [generator.next() for _ in range(600)] == [n >> 2 for n in splitmix64(start, 600)]


def test_a_state_continues_the_sequence() -> None:
    generator = flow.Generator().manual_seed(8)
    for taken in (0, 1, 255, 256, 700):
        generator.manual_seed(8)
        for _ in range(taken):
            generator.next()
        state = generator.get_state()
        assert state == (8, taken)
        expected = [generator.next() for _ in range(3)]
        other = flow.Generator()
        other.set_state(state)
        assert [other.next() for _ in range(3)] == expected == [n >> 2 for n in splitmix64(8, taken + 3)[taken:]]


def test_threads_share_a_generator() -> None:
    """Each seed is taken once."""
    generator, taken = flow.Generator().manual_seed(2), [list[Any]() for _ in range(4)]
    threads = [
        threading.Thread(target=lambda own: own.extend(generator.next() for _ in range(2000)), args=(own,))
        for own in taken
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for own in taken for n in own) == sorted(n >> 2 for n in splitmix64(2, 8000))
    assert generator.get_state() == (2, 8000)
