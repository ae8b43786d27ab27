"""Attention and its gradients at all lengths on a CUDA device, against products and a softmax in f64 on the device.

    python test/fuzz/attention_lengths.py [--first N] [--last N] [--step N] [--jobs N] [--seconds N]

Each job is a separate process, since an illegal instruction ends the process: the parent reports the length that the
job was checking. Head sizes, masks and numbers of heads cycle with the length, so that each meets lengths of every
remainder. The exit status is the number of findings.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

#: Numbers of heads, head sizes and masks, which cycle with the length; the three counts are coprime.
HEADS, SIZES, MASKS = (12, 3), (64, 128, 40), ("none", "causal", "rows", "float", "bool")
#: Lengths whose operands fill the device: a fault of one block is seen among many.
BATCH = 16
TOLERANCE = 2e-2


def length_case(length: int) -> tuple[int, int, str]:
    """Heads, size of a head, and mask of a length."""
    return HEADS[length % 2], SIZES[length % 3], MASKS[length % 5]


def check(length: int) -> str:
    """The fault at a length as text; empty if there is no fault."""
    import torch  # noqa: PLC0415

    import oneflow as flow  # noqa: PLC0415

    heads, size, kind = length_case(length)
    generator = torch.Generator(device="cuda").manual_seed(length)
    shape = (BATCH, heads, length, size)
    q, k, v, dy = (torch.randn(shape, device="cuda", generator=generator).half() for _ in range(4))
    mask = make_mask(torch, kind, length)

    def product(q: flow.Tensor, k: flow.Tensor, v: flow.Tensor, weight: flow.Tensor, mask: object = None) -> object:
        y = flow.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "causal")
        return (y * weight).float().sum()

    def run(*args: object) -> object:
        return flow.grad(product, argnums=(0, 1, 2))(*args)

    arrays = [q, k, v, dy, *([mask] if mask is not None else [])]
    got = flow.compile(run, device="cuda")(*(flow.from_numpy(a) for a in arrays))
    leaves = [a.double().requires_grad_() for a in (q, k, v)]
    scores = leaves[0] @ leaves[1].transpose(2, 3) / size**0.5
    if kind == "causal":
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    elif kind == "bool":
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask.double()
    wants = torch.autograd.grad(((scores.softmax(-1) @ leaves[2]) * dy.double()).sum(), leaves)
    found = []
    for name, one, want in zip("qkv", got, wants, strict=True):
        mine = torch.from_dlpack(one.detach()).double()
        error = float((mine - want).norm() / want.norm().clamp_min(1.0))
        if not error <= TOLERANCE:
            found.append(f"d{name} {error:.1e}")
    return ", ".join(found)


def make_mask(torch: Any, kind: str, length: int) -> Any:
    """A mask of bools per batch, of floats per key, or of floats per query and key; None if there is no mask."""
    if kind == "bool":
        kept = torch.rand(BATCH, 1, 1, length, device="cuda") < 0.7
        kept[..., 0] = True
        return kept
    if kind == "rows":
        return torch.randn(1, 1, 1, length, device="cuda").half()
    return torch.randn(1, 1, length, length, device="cuda").half() if kind == "float" else None


def work(lengths: list[int], seconds: float) -> None:
    """A job: prints each length before and after the check of the length."""
    end = time.monotonic() + seconds
    for length in lengths:
        if time.monotonic() > end:
            break
        print(f"at {length}", flush=True)
        try:
            fault = check(length)
        except Exception as error:
            fault = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        print(f"wrong {length} {length_case(length)}: {fault}" if fault else f"right {length}", flush=True)


def main() -> int:
    """The number of findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=800)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3600.0, help="no length is begun after so long")
    parser.add_argument("--job", type=int, help="run only this job's lengths, in this process")
    options = parser.parse_args()
    lengths = list(range(options.first, options.last + 1, options.step))
    if options.job is not None:
        work(lengths[options.job :: options.jobs], options.seconds)
        return 0
    command = [sys.executable, __file__, *sys.argv[1:], "--job"]
    jobs = [subprocess.Popen([*command, str(j)], stdout=subprocess.PIPE, text=True) for j in range(options.jobs)]
    wrong, right = [], 0
    for job in jobs:
        lines = job.communicate()[0].splitlines()
        right += sum(line.startswith("right") for line in lines)
        wrong += [line for line in lines if line.startswith("wrong")]
        if lines and lines[-1].startswith("at"):
            wrong.append(f"ended {lines[-1]} with status {job.returncode}")
    print("\n".join([*wrong, f"{right} lengths are right, {len(wrong)} are not"]))
    return len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
