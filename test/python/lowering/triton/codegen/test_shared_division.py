"""Division of a row by one number: correct rounding, and the kernels that use the division."""

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from test_hopper_attention import program_of

import oneflow as flow
from oneflow.lowering.targets.selection import gpu_target
from oneflow.lowering.triton.codegen.prelude import QUOTIENTS, shared_division_asm
from oneflow.runtime.cuda.compiler import compile_source

#: Elements of the smallest block with shared division.
BLOCK = gpu_target().kernels.blocks.division_block


def rounded(compute, *operands):
    """The exact result of a computation, rounded to the nearest f32, ties to even."""
    if not np.all(np.isfinite(operands)):
        with np.errstate(all="ignore"):
            return np.float32(compute(*operands))
    exact = compute(*(Fraction(float(x)) for x in operands))
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


def value(registers, name):
    return registers[name] if name in registers else np.uint32(int(name, 0))


def bits(number):
    return int(np.float32(number).view(np.uint32)) if isinstance(number, np.floating) else int(number)


def run(text, registers):
    """Interprets PTX instructions on `registers`, with correct rounding; returns whether the branch was taken."""
    compute: dict[str, Any] = {
        "mul.rn.f32": lambda a, b: rounded(lambda a, b: a * b, a, b),
        "fma.rn.f32": lambda a, b, c: rounded(lambda a, b, c: a * b + c, a, b, c),
        "neg.f32": lambda a: -a,
        "div.rn.f32": lambda a, b: a / b,
        "mov.u32": lambda a: a,
        "shl.b32": lambda a, b: np.uint32(bits(a) << int(b) & 0xFFFFFFFF),
        "sub.u32": lambda a, b: np.uint32((bits(a) - bits(b)) & 0xFFFFFFFF),
        "max.u32": lambda a, b: max(a, b),
        "setp.lt.u32": lambda a, b: a < b,
    }
    for step in text.removeprefix("{").removesuffix("done: }").strip().rstrip(";").split(";"):
        if step.strip() == "@p bra done":
            if registers["p"]:
                return True
        elif not step.strip().startswith("."):
            name, target, *operands = re.split(r",? +", step.strip().replace(", ", " "))
            registers[target] = compute[name](*(value(registers, o) for o in operands))
    return False


def quotients(a, b):
    """The quotients of `QUOTIENTS` numbers by one number, and whether no `div.rn` was needed."""
    inverse = np.float32(1) / b
    given = [np.float32(0)] * QUOTIENTS + list(a) + [b] * QUOTIENTS + [inverse] * QUOTIENTS
    registers = {f"${i}": x for i, x in enumerate(given)}
    fast = run(shared_division_asm(), registers)
    return np.array([registers[f"${i}"] for i in range(QUOTIENTS)], np.float32), fast


def test_quotients_are_rounded_correctly():
    rng = np.random.default_rng(2)
    for number in range(40):
        b = np.float32(rng.uniform(1, 2) * 2.0 ** rng.integers(-40, 40) * rng.choice([-1, 1]))
        a = (rng.uniform(1, 2, QUOTIENTS) * 2.0 ** rng.integers(-20, 20, QUOTIENTS)).astype(np.float32) * b
        if number % 2:  # Quotients near an f32, which rounding errors could miss.
            a = np.nextafter((np.arange(QUOTIENTS) + 2**23).astype(np.float32) * b, np.float32(0))
        got, fast = quotients(a, b)
        assert fast
        np.testing.assert_array_equal(got, a / b)


@pytest.mark.parametrize("odd", [0.0, -0.0, 1e-42, 1e-30, 3e38, np.inf, np.nan])
def test_exponents_out_of_range_are_divided(odd):
    a = np.full(QUOTIENTS, 3, np.float32)
    a[5] = odd
    got, fast = quotients(a, np.float32(7))
    assert not fast
    np.testing.assert_array_equal(got.view(np.uint32), (a / np.float32(7)).view(np.uint32))


@pytest.mark.parametrize(
    ("kind", "size", "shared"),
    [
        (flow.float32, BLOCK, True),
        (flow.float32, 64, False),
        (flow.bfloat16, BLOCK, False),
    ],
)
def test_kernels_with_shared_division(kind, size, shared):
    """Rows of which all threads have enough elements; 16-bit rows use approximate division."""
    (source,) = program_of(lambda x: flow.softmax(x, -1), [(4, size)], kind).sources.values()
    kernel = source.text.rpartition("@triton.jit")[2]
    assert ("divide_by_shared(" in kernel) == shared and ("div_rn" in kernel) == (kind is flow.float32 and not shared)
    assert compile_source(source).cubin


def test_correction_of_an_approximate_quotient():
    """The division of product kernels: the quotient is up to two units off, the reciprocal one unit."""
    rng = np.random.default_rng(4)
    for number in range(200):
        b = np.float32(rng.uniform(1, 2) * 2.0 ** rng.integers(-40, 40) * rng.choice([-1, 1]))
        wanted = np.float32(
            rng.integers(1, 1 << 11) if number % 2 else rng.uniform(1, 2) * 2.0 ** rng.integers(-20, 20)
        )
        if number % 2:
            b = np.float32(rng.integers(1, 1 << 12))  # so that the quotient is exact
        a = wanted * b
        near, unit = a / b, np.spacing(np.abs(a / b))
        near += np.float32(rng.integers(-2, 3)) * unit
        inverse = np.float32(1) / b * np.float32(1 + rng.integers(-1, 2) * 2.0**-23)
        left = rounded(lambda near, b, a: a - near * b, near, b, a)
        better = rounded(lambda left, inverse, near: near + left * inverse, left, inverse, near)
        assert (
            abs(Fraction(float(better)) - Fraction(float(a)) / Fraction(float(b))) <= Fraction(float(unit)) * 51 / 100
        )
        assert number % 2 == 0 or better == wanted


def test_epilogues_divide_without_branches():
    """A thread has many elements of a tile, and `tl.div_rn` has a branch for each."""

    def function(x, w):
        y = (x @ w).to(flow.float32)
        return y / (y * y + 1.0)

    program = program_of(function, [(4096, 1024), (1024, 4096)], flow.bfloat16)
    (source,) = program.sources.values()
    assert all(
        "= divide(" in s.text and "= tl.div_rn(" not in s.text for s in (source, *source.specializations.values())
    )
    assert "div.rn" not in compile_source(source).ptx
