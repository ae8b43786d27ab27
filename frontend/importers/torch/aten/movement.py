"""Shapes, slices, joins and other movement of elements."""

from __future__ import annotations

import math
from typing import Any

from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.dispatch import dispatch
from oneflow.frontend.core.errors import fail
from oneflow.frontend.core.tensor import Size
from oneflow.frontend.functional.scattering import unfold_dimension
from oneflow.frontend.functional.shape import END
from oneflow.frontend.functional.sizes import bound, sections
from oneflow.frontend.importers.torch.aten.gradients import pulled_back
from oneflow.frontend.importers.torch.table import aten, rows

rows({
    F.transpose: "transpose.int transpose_copy.int", F.t: "t t_copy", F.permute: "permute permute_copy",
    F.unsqueeze: "unsqueeze unsqueeze_copy", F.flip: "flip",
    F.squeeze: "squeeze squeeze.dim squeeze.dims squeeze_copy squeeze_copy.dim squeeze_copy.dims",
    F.repeat: "repeat", F.tril: "tril", F.triu: "triu",
    F.unbind: "unbind.int unbind_copy.int", F.movedim: "movedim.int", F.cat: "cat concat", F.stack: "stack",
    F.diagonal: "diagonal diagonal_copy", F.as_strided: "as_strided as_strided_copy",
    unfold_dimension: "unfold unfold_copy", F.chunk: "chunk", F.flatten: "flatten.using_ints",
})  # fmt: skip


@aten("meshgrid.default", "meshgrid.indexing")
def meshgrid(tensors: Any, *, indexing: str = "ij") -> Any:
    return list(F.meshgrid(*tensors, indexing=indexing))


@aten("broadcast_tensors.default")
def broadcast_tensors(tensors: Any) -> Any:
    return list(F.broadcast_tensors(*tensors))


@aten("numpy_T.default")
def reversed_dimensions(x: Any) -> Any:
    return F.permute(x, *reversed(range(x.rank)))


@aten("mT.default")
def transposed_matrices(x: Any) -> Any:
    return F.transpose(x, -2, -1)


@aten("view.default", "_unsafe_view.default", "reshape.default", "_reshape_alias.default", "unflatten.int",
      "view_as.default", "reshape_as.default", "view_copy.default")  # fmt: skip
def view(x: Any, *_: Any, out: Any) -> Any:
    return F.reshape(x, out.shape)


@aten("expand.default", "expand_as.default", "broadcast_to.default", "expand_copy.default")
def expand(x: Any, *_: Any, implicit: bool = False, out: Any) -> Any:
    return F.expand(x, *out.shape)


@aten("slice.Tensor", "slice_copy.Tensor")
def slices(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    dim %= x.rank
    from_start = start in (None, 0) if not isinstance(start, Size) else False
    if from_start and step == 1 and _is_end(end):
        return x
    return F.getitem(x, (*[slice(None)] * dim, slice(start, None if _is_end(end) else end, step)))


def _is_end(end: Any) -> bool:
    return not isinstance(end, Size) and (end is None or end >= END)


@aten("select.int", "select_copy.int")
def select(x: Any, dim: int, index: Any) -> Any:
    return F.select(x, dim, index)


@aten("narrow.default", "narrow_copy.default")
def narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    return F.narrow(x, dim, start, length)


@aten("slice_backward.default")
def slice_backward(grad: Any, sizes: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    return pulled_back(lambda v: slices(v, dim, start, end, step), grad, F.zeros(sizes, dtype=grad.dtype))


@aten("select_backward.default")
def select_backward(grad: Any, sizes: Any, dim: int, index: Any) -> Any:
    return pulled_back(lambda v: F.select(v, dim, index), grad, F.zeros(sizes, dtype=grad.dtype))


@aten("slice_scatter.default")
def slice_scatter(x: Any, value: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    dim %= x.rank
    size = x.size(dim)
    first = 0 if start is None else bound(start, size)
    last = size if _is_end(end) else bound(end, size)
    if step == 1 and any(isinstance(v, Size) for v in (first, last, size)):
        before, _, after = sections(x, dim, [first, last - first, size - last])
        return F.cat([before, F.cast(value, x.dtype), after], dim)
    triples = [(0, END, 1)] * dim + [(first, last, step)] + [(0, END, 1)] * (x.rank - dim - 1)
    begin, stop, steps = zip(*triples, strict=True)
    return dispatch("slice_update", x, F.cast(value, x.dtype), start=begin, stop=stop, step=steps)


@aten("select_scatter.default")
def select_scatter(x: Any, value: Any, dim: int, index: Any) -> Any:
    if not isinstance(index, Size) and index < 0:
        index = index + x.size(dim)
    return slice_scatter(x, F.unsqueeze(value, dim % x.rank), dim, index, index + 1)


@aten("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default", "split.sizes",
      "unsafe_split.Tensor", "tensor_split.sections")  # fmt: skip
def split(x: Any, sizes: Any, dim: int = 0, *, out: Any) -> Any:
    return list(F.split(x, [part.shape[dim] for part in out], dim)) if x.shape[dim] != 0 else [x] * len(out)


@aten("roll.default")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    return F.roll(x, shifts, dims or None)


@aten("constant_pad_nd.default")
def constant_pad(x: Any, pad: Any, value: Any = 0) -> Any:
    return F.pad(x, pad, "constant", value)


@aten("pad.default")
def pad(x: Any, amounts: Any, mode: str = "constant", value: Any = None) -> Any:
    return F.pad(x, amounts, mode, value or 0)


for _mode, _kind in (("reflect", "reflection"), ("replicate", "replication")):
    for _spatial in (1, 2, 3):
        _name = f"{_kind}_pad{_spatial}d"
        aten(f"{_name}.default")(lambda x, amounts, _mode=_mode: F.pad(x, amounts, _mode))
        aten(f"{_name}_backward.default")(
            lambda grad, x, amounts, _mode=_mode: pulled_back(lambda v: F.pad(v, amounts, _mode), grad, x)
        )


@aten("repeat_interleave.self_int")
def repeat_interleave(x: Any, count: Any, dim: int | None = None, *, output_size: Any = None) -> Any:
    x, dim = (F.reshape(x, (-1,)), 0) if dim is None else (x, dim % x.rank)
    sizes = x.sizes()
    each = F.expand(F.unsqueeze(x, dim + 1), *sizes[: dim + 1], count, *sizes[dim + 1 :])
    return F.reshape(each, (*sizes[:dim], sizes[dim] * count, *sizes[dim + 1 :]))


@aten("diff.default")
def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = [v for v in (prepend, x, append) if v is not None]
    x = F.cat(ends, dim) if len(ends) > 1 else x
    for _ in range(n):
        dim = dim % x.rank
        later, earlier = slices(x, dim, 1), slices(x, dim, 0, -1)
        x = F.sub(later, earlier) if x.dtype.kind != "bool" else F.ne(later, earlier)
    return x


@aten("as_strided_scatter.default")
def as_strided_scatter(x: Any, value: Any, size: Any, stride: Any, offset: int | None = None) -> Any:
    if None in x.shape:
        raise fail(f"strides in a tensor of dynamic sizes, {x.desc}")
    at = F.as_strided(F.arange(math.prod(x.shape)), size, stride, offset or 0)
    flat = [F.reshape(v, (-1,)) for v in (x, at, value)]
    return F.reshape(F.scatter(flat[0], 0, flat[1], flat[2]), x.shape)


@aten("diagonal_backward.default")
def diagonal_backward(grad: Any, sizes: Any, offset: int, dim1: int, dim2: int) -> Any:
    return pulled_back(lambda v: F.diagonal(v, offset, dim1, dim2), grad, F.zeros(sizes, dtype=grad.dtype))


@aten("diagonal_scatter.default")
def diagonal_scatter(x: Any, value: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    placed = [
        pulled_back(lambda v: F.diagonal(v, offset, dim1, dim2), v, F.zeros_like(x))
        for v in (value, F.ones_like(value))
    ]
    return F.where(F.ne(placed[1], 0), placed[0], x)


@aten("diag_embed.default")
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1, *, out: Any) -> Any:
    shape = F.zeros(out.shape, dtype=x.dtype)
    return pulled_back(lambda v: F.diagonal(v, offset, dim1, dim2), x, shape)


@aten("unfold_backward.default")
def unfold_backward(grad: Any, sizes: Any, dim: int, size: int, step: int) -> Any:
    return pulled_back(lambda v: unfold_dimension(v, dim, size, step), grad, F.zeros(sizes, dtype=grad.dtype))


@aten("rot90.default")
def rot90(x: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    for _ in range(k % 4):
        x = F.flip(F.transpose(x, *dims), [dims[0]])
    return x


@aten("block_diag.default")
def block_diag(matrices: Any) -> Any:
    blocks = [m if m.rank == 2 else F.reshape(m, (1, math.prod(m.shape))) for m in matrices]
    width, before, rows_ = sum(m.shape[1] for m in blocks), 0, []
    for m in blocks:
        rows_.append(F.pad(m, [before, width - before - m.shape[1]]))
        before += m.shape[1]
    return F.cat(rows_, 0)
