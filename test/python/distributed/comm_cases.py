"""Collectives and messages of `flow.comm` on three ranks: their values, and calls that differ between ranks."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import oneflow as flow
from oneflow import comm
from oneflow.runtime.collectives.transport import WorldError

RANK, SIZE = flow.env.get_rank(), flow.env.get_world_size()
ALL = flow.placement("cpu", list(range(SIZE)))
X, WIDE, WHOLE, SQUARE = flow.ones(4), flow.ones(8), flow.ones(4, dtype=flow.int32), flow.ones(2, 2)
SEVERAL = [flow.ones(4) for _ in range(SIZE)]
TABLE = flow.ones(SIZE, 4)

#: Calls, and what messages say of them.
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: comm.all_reduce(X), "comm.all_reduce of tensor<4xf32>"),
    (lambda: comm.all_reduce(WIDE), "comm.all_reduce of tensor<8xf32>"),
    (lambda: comm.all_reduce(WHOLE), "comm.all_reduce of tensor<4xi32>"),
    (lambda: comm.all_reduce(SQUARE), "comm.all_reduce of tensor<2x2xf32>"),
    (lambda: comm.all_gather(SEVERAL, X), "comm.all_gather of tensor<4xf32>"),
    (lambda: comm.all_gather_into_tensor(TABLE, X), "comm.all_gather_into_tensor of tensor<4xf32>"),
    (lambda: comm.all_to_all(SEVERAL, SEVERAL), "comm.all_to_all of tensor<4xf32>"),
    (lambda: comm.barrier(), "comm.barrier"),
    (lambda: comm.broadcast(X, 0), "comm.broadcast of tensor<4xf32> from rank 0"),
    (lambda: comm.broadcast(X, 1), "comm.broadcast of tensor<4xf32> from rank 1"),
    (lambda: comm.gather(X, SEVERAL, 0), "comm.gather of tensor<4xf32> to rank 0"),
    (lambda: comm.gather(X, SEVERAL, 2), "comm.gather of tensor<4xf32> to rank 2"),
    (lambda: comm.reduce(X, 0), "comm.reduce of tensor<4xf32> to rank 0"),
    (lambda: comm.reduce(X, 2), "comm.reduce of tensor<4xf32> to rank 2"),
    (lambda: comm.reduce_scatter(X, SEVERAL), "comm.reduce_scatter of tensor<4xf32>"),
    (lambda: comm.reduce_scatter_tensor(X, TABLE), "comm.reduce_scatter_tensor of tensor<3x4xf32>"),
    (lambda: comm.scatter(X, SEVERAL, 0), "comm.scatter of tensor<4xf32> from rank 0"),
    (lambda: comm.scatter(X, SEVERAL, 1), "comm.scatter of tensor<4xf32> from rank 1"),
    (lambda: X.to_global(ALL, flow.sbp.split(0)), "tensor<4xf32> of rank 0 on ranks [0, 1, 2] as S(0)"),
]


def failure(call: Callable[[], Any]) -> str:
    """The message of a call that differs from what other ranks request."""
    try:
        call()
    except WorldError as error:
        return str(error)
    raise AssertionError("expected a WorldError")


def own(shape: Sequence[int] = (2,), dtype: flow.dtype = flow.float32) -> Any:
    """A tensor of this rank: 1, 10 or 100 everywhere."""
    return flow.full(tuple(shape), 10**RANK, dtype=dtype)


def values() -> None:
    """The results of all functions."""
    for dtype in (flow.float32, flow.float16, flow.int64):
        x = own(dtype=dtype)
        comm.all_reduce(x)
        assert x.tolist() == [111, 111] and x.dtype == dtype
    several = [flow.zeros(2) for _ in range(SIZE)]
    comm.all_gather(several, own())
    assert [x.tolist() for x in several] == [[1, 1], [10, 10], [100, 100]]
    table = flow.zeros(3, 2)
    comm.all_gather_into_tensor(table, own())
    assert table.tolist() == [[1, 1], [10, 10], [100, 100]]
    comm.all_to_all(several, [own() * n for n in (1, 2, 3)])
    assert [x.tolist() for x in several] == [[n * (RANK + 1)] * 2 for n in (1, 10, 100)]
    comm.barrier()
    x = own((2, 3) if RANK else (6,))
    comm.broadcast(x, 1)
    assert x.shape == ((2, 3) if RANK else (6,)) and x.numpy().flatten().tolist() == [10] * 6
    comm.gather(own(), several if RANK == 2 else None, 2)
    assert RANK != 2 or [x.tolist() for x in several] == [[1, 1], [10, 10], [100, 100]]
    x = own()
    comm.reduce(x, 1)
    assert x.tolist() == ([111, 111] if RANK == 1 else own().tolist())
    comm.reduce_scatter(x, [own() * n for n in (1, 2, 3)])
    assert x.tolist() == [111 * (RANK + 1)] * 2
    comm.reduce_scatter_tensor(x, own((6,)))
    assert x.tolist() == [111, 111]
    refused()
    comm.scatter(x, [flow.full((2,), float(n)) for n in range(SIZE)] if RANK == 1 else None, 1)
    assert x.tolist() == [RANK, RANK]


def refused() -> None:
    """Lists and shapes that do not fit: a list of which one tensor does not fit does not change."""
    several = [flow.zeros(2), flow.zeros(2), flow.zeros(3)]
    other = (RANK + 1) % SIZE
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: comm.all_gather(several, own()), "expected a tensor<2xf32> of this process .* tensor<3xf32>"),
        (lambda: comm.all_gather_into_tensor(flow.zeros(2), own()), "expected a tensor of 6 elements of f32"),
        (lambda: comm.reduce_scatter_tensor(flow.zeros(1), own((4,))), "multiple of 3, .* got tensor<4xf32>"),
        (lambda: comm.recv(other, 3, flow.float32), "expected a list of sizes .* got 3"),  # type: ignore[arg-type]
        (lambda: comm.recv(other, (3,), np.float32), "expected an element type"),  # type: ignore[arg-type]
    ]
    for call, expected in cases:
        try:
            call()
        except flow.OneFlowError as error:
            assert re.search(expected, str(error)), error
        else:
            raise AssertionError(f"expected an error: {expected}")
    assert not any(x.numpy().any() for x in several)


def orders() -> None:
    """Rank 1 makes another call: all ranks have one message, and go on."""
    for (one, text), (other, text_of_other) in itertools.permutations(CALLS, 2):
        message = failure(other if RANK == 1 else one)
        lines = [rf"\S*comm_cases.py:{call.__code__.co_firstlineno}" for call in (one, other)]
        wanted = (
            rf"ranks 0 and 2 request {re.escape(text)} at {lines[0]},"
            rf" rank 1 requests {re.escape(text_of_other)} at {lines[1]};"
        )
        assert re.search(wanted, message), message
    comm.all_reduce(X)


def messages() -> None:
    """A receiver that expects something else has a message, and goes on with the next tensor."""
    small, large = flow.ones(2, 3, dtype=flow.int32), flow.ones(1000)
    if RANK == 0:
        for x in (small, large, small, large):
            comm.send(x, 1, send_meta=False)
        large.to_global(ALL, flow.sbp.split(0)).to_global(ALL, flow.sbp.broadcast)
        comm.send(flow.ones(*[1] * 20), 1)
    elif RANK == 1:
        for call, sent, expected in (
            (lambda: comm.recv(0, (1000,), flow.float32), "tensor<2x3xi32>", "tensor<1000xf32>"),
            (lambda: comm.recv(0, out=flow.zeros(999)), "tensor<1000xf32>", "tensor<999xf32>"),
            (lambda: comm.recv(0, (2, 3), flow.float32), "tensor<2x3xi32>", "tensor<2x3xf32>"),
        ):
            message, line = failure(call), call.__code__.co_firstlineno
            wanted = (
                rf"expected ranks 0 and 1 to send and receive the same, but rank 0 sends {sent} at"
                rf" \S*comm_cases.py:\d+, rank 1 receives {expected} at \S*comm_cases.py:{line};"
            )
            assert re.search(wanted, message), message
        large.to_global(ALL, flow.sbp.split(0)).to_global(ALL, flow.sbp.broadcast)
        np.testing.assert_array_equal(comm.recv(0, (1000,), flow.float32).numpy(), np.ones(1000))
        assert comm.recv(0).shape == (1,) * 20
    else:
        large.to_global(ALL, flow.sbp.split(0)).to_global(ALL, flow.sbp.broadcast)


def waits() -> None:
    """A rank receives while the others sum: the watchdog ends the job."""
    if RANK == 0:
        comm.recv(1, (4,), flow.float32)
    comm.all_reduce(X)


if __name__ == "__main__":
    {"values": values, "orders": orders, "messages": messages, "waits": waits}[sys.argv[1]]()
