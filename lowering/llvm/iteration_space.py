"""The iteration space of a kernel: the loops of its structure without unit loops, with contiguous loops collapsed.

Input is the structure of a kernel, output its loops with their sizes, and accesses over these loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oneflow.dialect._mlir import ir
from oneflow.lowering.kernels.nodes import AffineForm, Node, Structure, Unsupported, Use, static_size
from oneflow.lowering.llvm.kernel import Kernel
from oneflow.lowering.llvm.writer import Index, Writer


@dataclass(frozen=True)
class Loop:
    """One loop of the nest: the corresponding loops of the structure, and the number of steps."""

    loop_ids: tuple[int, ...]
    size: Index

    @property
    def id(self) -> int:
        """The id of the loop in subscripts: its first loop of the structure."""
        return self.loop_ids[0]


@dataclass(frozen=True)
class Subscript:
    """One subscript of an access: an affine form over loop ids, and the size of the dimension."""

    form: AffineForm
    size: Index


@dataclass
class IterationSpace:
    """The `outer` and `inner` loops of a structure; `subscripts` are accesses over these loops."""

    kernel: Kernel
    structure: Structure
    writer: Writer
    outer: list[Loop] = field(default_factory=list)
    inner: list[Loop] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = self.structure.nodes
        loops = [*self.structure.outer, *self.structure.inner]
        self._sizes = {n: _size_of(self.kernel, nodes, n) for n in loops}
        self._indexed = {node.loop_ids[d] for node in nodes for d in index_dims(node)}
        self.outer = self._collapse(self.structure.outer)
        self.inner = self._collapse(self.structure.inner)
        self._loops = [*self.outer, *self.inner]

    def _collapse(self, loops: Sequence[int]) -> list[Loop]:
        """Removes unit loops and collapses runs of loops that are contiguous in every access."""
        groups: list[list[int]] = []
        for loop in loops:
            if self._sizes[loop] == 1:
                continue
            if groups and self._are_collapsible(groups[-1][-1], loop):
                groups[-1].append(loop)
            else:
                groups.append([loop])
        with self.writer.at_head():
            merged = [Loop(tuple(g), self.writer.product([self._sizes[n] for n in g])) for g in groups]
        return merged

    def _are_collapsible(self, a: int, b: int) -> bool:
        """Whether adjacent loops can be collapsed."""
        if {a, b} & self._indexed:
            return False
        uses = ((n, u) for n in self.structure.nodes for u in (*n.inputs, *n.outputs))
        return all(self._is_collapsible_access(n, u, a, b) for n, u in uses)

    def _loops_of(self, use: Use) -> list[Loop]:
        """The loops that the subscripts of an access are over."""
        return self._loops

    def step_count(self, loop: int) -> Index:
        """The number of steps of a loop of the structure."""
        return self._sizes[loop]

    def _is_collapsible_access(self, node: Node, use: Use, a: int, b: int) -> bool:
        """Whether an access has two loops as adjacent full dimensions, or has neither of the loops."""
        forms_and_axes = self._forms(node, use)
        forms = [f for f, _ in forms_and_axes]
        touched = [i for i, f in enumerate(forms) if f.dims & {a, b}]
        if not touched:
            return not {a, b} & set(node.loop_ids) or {a, b} <= set(node.loop_ids)
        full = all(self._spans_dimension(use, *forms_and_axes[i]) for i in touched)
        return full and [forms[i].dim for i in touched] == [a, b] and touched[1] == touched[0] + 1

    def _spans_dimension(self, use: Use, form: AffineForm, axis: int) -> bool:
        """Whether a loop spans a dimension; a window of one element may span only a part."""
        if use.access[axis].dim is not None:
            return form.dim is not None
        return form.dim is not None and static_size(use.value, axis) == self._sizes[form.dim]

    def _forms(self, node: Node, use: Use) -> list[tuple[AffineForm, int]]:
        """The subscripts of an access over the structure's loops with their axes, without unit dimensions."""
        forms = []
        for axis, form in enumerate(use.access):
            over_loops = form.replace_dims(node.loop_ids)
            terms = tuple((n, c) for n, c in over_loops.terms if self._sizes.get(n) != 1)
            reduced = AffineForm(terms, over_loops.constant)
            if not (reduced.is_zero and _is_unit(use.value, axis, form, self._sizes, node)):
                forms.append((reduced, axis))
        return forms

    def subscripts(self, node: Node, use: Use) -> list[Subscript]:
        """The subscripts of an access over the collapsed loops."""
        subscripts: list[Subscript] = []
        by_first = {loop.id: loop for loop in self._loops_of(use)}
        collapsed = {n for loop in by_first.values() for n in loop.loop_ids[1:]}
        for form, axis in self._forms(node, use):
            if form.dim in collapsed:
                continue
            full = form.dim is not None and self._spans_dimension(use, form, axis)
            loop = by_first.get(form.dim) if full and form.dim is not None else None
            subscripts.append(Subscript(form, loop.size if loop else self._axis_size(use.value, axis)))
        return subscripts

    def _axis_size(self, value: ir.Value, axis: int) -> Index:
        """The size of a tensor's dimension."""
        tensor = self.kernel.tensors.get(value)
        if tensor is None:
            raise Unsupported("a computed subscript of a value of the kernel")
        return tensor.shape[axis]


def _is_unit(value: ir.Value, axis: int, form: AffineForm, sizes: dict[int, Index], node: Node) -> bool:
    """Whether a dimension has one element: by its type, or since it is a unit loop."""
    return value.type.shape[axis] == 1 or (form.dim is not None and sizes.get(node.loop_ids[form.dim]) == 1)


def _size_of(kernel: Kernel, nodes: Sequence[Node], loop: int) -> Index:
    """The size of a loop: static if a type has the size, else the size of an argument's dimension.

    Raises:
        Unsupported: no argument has the size.
    """
    argument_size: Index | None = None
    for node in nodes:
        for use in (*node.inputs, *node.outputs):
            for axis, form in enumerate(use.access):
                if form.dim is None or node.loop_ids[form.dim] != loop:
                    continue
                if not use.value.type.is_dynamic_dim(axis):
                    return int(use.value.type.get_dim_size(axis))
                if use.value in kernel.tensors:
                    argument_size = kernel.tensors[use.value].shape[axis]
    if argument_size is None:
        raise Unsupported("a loop whose size no argument determines")
    return argument_size


def index_dims(node: Node) -> set[int]:
    """The loop dimensions of the `linalg.index` operations in the body."""
    ops = (o.operation for o in node.body.operations)
    return {ir.IntegerAttr(o.attributes["dim"]).value for o in ops if o.name == "linalg.index"}
