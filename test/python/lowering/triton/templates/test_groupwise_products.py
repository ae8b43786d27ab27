"""Products with weights of 4 and 8 bits: kernels that dequantize in registers, against NumPy in f64."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from lowered import lower

from oneflow.lowering.targets.selection import gpu_target_named, using_gpu
from oneflow.runtime.cuda.compiler import compile_source
from oneflow.testing.triton_interpreter import interpret_program

KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
OPERATOR = "fused_linear_with_groupwise_quantized_weight"


def text_of(x, columns, bits, group, kind="bf16", stored="ui8", symmetric=True, bias=False, axis=1):
    """A program with one product; `x` is the shape of the rows."""
    depth = x[-1]
    scales = (columns, depth // group) if axis == 1 else (columns // group, depth)

    def tensor(*shape, element=kind):
        return f"tensor<{'x'.join(map(str, shape))}x{element}>"

    present = [True, True, True, not symmetric, bias]
    every = [tensor(*x), tensor(columns, depth * bits // 8, element=stored), *[tensor(*scales)] * 2, tensor(columns)]
    types = [t for t, is_present in zip(every, present, strict=True) if is_present]
    names, result = [f"%{n}" for n in range(len(types))], tensor(*x[:-1], columns)
    segments = ", ".join(str(int(p)) for p in present)
    attributes = (
        f"num_bits = {bits} : i32, group_dim = {axis} : i64, group_size = {group} : i64, "
        f"symmetric = {str(symmetric).lower()}, operandSegmentSizes = array<i32: {segments}>"
    )
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    return f"""func.func @main({arguments}) -> {result} {{
  %y = "oneflow.{OPERATOR}"({", ".join(names)}) {{{attributes}}} : ({", ".join(types)}) -> {result}
  return %y : {result}
}}"""


def weights_of(packed, bits, group, scale, zero):
    """The numbers of a weight in f64, from bytes of which the upper half is the first of two numbers of 4 bits."""
    numbers = packed.astype(np.int64)
    if bits == 4:
        low = numbers % 16
        low = low - 16 * (low > 7) if packed.dtype == np.int8 else low
        numbers = np.stack([numbers // 16, low], -1).reshape(len(packed), -1)
    if packed.dtype == np.uint8 and zero is None:
        numbers = numbers - {4: 7, 8: 127}[bits]
    spread = [0 if p is None else np.repeat(p.astype(np.float64), group, 1) for p in (scale, zero)]
    return numbers * spread[0] + spread[1]


CALLS: dict[str, tuple[tuple[int, ...], int, int, int, dict[str, Any]]] = {
    "4 bits": ((1, 64), 40, 4, 32, {}),
    "4 bits, zero points, bias": ((3, 256), 48, 4, 128, {"symmetric": False, "bias": True}),
    "4 bits, signed": ((17, 96), 33, 4, 96, {"stored": "i8"}),
    "8 bits": ((2, 5, 96), 20, 8, 48, {"bias": True}),
    "8 bits, signed": ((64, 64), 16, 8, 16, {"stored": "i8"}),
    "8 bits, zero points": ((4, 256), 64, 8, 256, {"symmetric": False, "kind": "f16"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_products_of_few_rows(name):
    x_shape, columns, bits, group, how = CALLS[name]
    program = lower(text_of(x_shape, columns, bits, group, **how))
    (source,) = program.sources.values()
    assert OPERATOR in source.name and source.has_dot
    rng, kind = np.random.default_rng(3), KINDS[how.get("kind", "bf16")]
    depth, stored = x_shape[-1], np.uint8 if how.get("stored", "ui8") == "ui8" else np.int8
    x = rng.standard_normal(x_shape).astype(kind)
    packed = rng.integers(np.iinfo(stored).min, np.iinfo(stored).max + 1, (columns, depth * bits // 8)).astype(stored)
    scale, zero = (rng.uniform(-0.1, 0.1, (columns, depth // group)).astype(kind) for _ in range(2))
    zero_point = None if how.get("symmetric", True) else zero
    bias = rng.standard_normal(columns).astype(kind) if how.get("bias") else None
    (got,) = interpret_program(program, *(a for a in (x, packed, scale, zero_point, bias) if a is not None))
    weight = weights_of(packed, bits, group, scale, zero_point).astype(kind).astype(np.float64)
    want = x.astype(np.float64) @ weight.T + (0 if bias is None else bias.astype(np.float64))
    error = np.abs(got.astype(np.float64) - want)
    assert got.shape == want.shape and np.all(error <= np.finfo(np.float16).eps * 8 * np.abs(want) + 2e-2)


@pytest.mark.parametrize("name", ["4 bits, zero points, bias", "8 bits"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernels_compile(arch, name):
    x_shape, columns, bits, group, how = CALLS[name]
    with using_gpu(gpu_target_named(arch)):
        (source,) = lower(text_of(x_shape, columns, bits, group, **how)).sources.values()
    binary = compile_source(source, arch)
    assert "mma" in binary.ptx and binary.shared <= gpu_target_named(arch).block_shared_bytes


@pytest.mark.parametrize(
    ("x", "group", "how"),
    [((65, 64), 32, {}), ((4, 64), 8, {}), ((4, 64), 32, {"kind": "f32"}), ((4, 64), 16, {"axis": 0})],
    ids=["many rows", "small groups", "f32", "groups of columns"],
)
def test_other_products_dequantize_the_weight_first(x, group, how):
    sources = lower(text_of(x, 32, 4, group, **how)).sources
    assert not any(OPERATOR in name for name in sources)


@pytest.mark.parametrize(
    ("columns", "block", "programs"), [(28672, 64, 448), (4224, 32, 132), (2048, 16, 128), (50, 16, 4)]
)
def test_every_sm_has_a_program(columns, block, programs):
    """An H200 has 132 SMs; a wide weight has blocks of 64 columns."""
    (source,) = lower(text_of((1, 4096), columns, 4, 128)).sources.values()
    assert source.grid.static == programs and f"tl.arange(0, {block})[:, None]" in source.text


def test_stages_follow_the_bandwidth_of_an_sm():
    """27 KB are in flight in an SM of an H200; a program of 32 columns loads 2 KB in a step."""
    text = text_of((1, 4096), 4224, 4, 128)
    stages = {}
    for arch in ("sm_75", "sm_90"):
        with using_gpu(gpu_target_named(arch)):
            (source,) = lower(text).sources.values()
            stages[arch] = source.stages
    assert stages["sm_90"] == 8 > stages["sm_75"]
