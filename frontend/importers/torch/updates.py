"""Updates in place in exported graphs: an update is a new value where no other tensor shares the memory.

PyTorch makes any graph functional, but it traces the graph again, twice. Most graphs need no trace: they have no
updates, or only updates of activations and residual sums.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from oneflow.frontend.importers.torch.errors import UnsupportedError

#: Operators that are composed of others, and whose result is a new tensor; the result of other operators may be their
#: operand.
_NEW_COMPOSITES = frozenset(
    "batch_norm conv1d conv2d conv3d linear matmul layer_norm group_norm instance_norm embedding max_pool2d "
    "adaptive_avg_pool2d".split()
)
#: The positions of the running mean and of the flag that updates it, in normalizations whose schema hides the update.
_NORMALIZATIONS, _MEAN, _FLAG = frozenset(("batch_norm", "instance_norm")), 3, 5


def counterpart(node: fx.Node) -> OpOverload | None:
    """The operator that computes the result of an update of the first operand; None for other operators."""
    return _counterpart(node.target) if isinstance(node.target, OpOverload) else None


@functools.cache
def _counterpart(operator: OpOverload) -> OpOverload | None:
    schema, name = operator._schema, operator._opname
    written = [a.name for a in schema.arguments if a.is_write]
    if written != [schema.arguments[0].name] or not name.endswith("_") or operator.namespace != "aten":
        return None
    functional = getattr(getattr(torch.ops.aten, name[:-1], None), operator._overloadname, None)
    if not isinstance(functional, OpOverload):
        return None
    return functional if _names(functional) == _names(operator) else None


def _names(operator: OpOverload) -> list[str]:
    return [a.name for a in operator._schema.arguments]


def updated_values(nodes: Sequence[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """The nodes whose value each update replaces.

    Raises:
        UnsupportedError: another tensor may have the updated memory, or normalizations update their statistics.
    """
    order = {node: i for i, node in enumerate(nodes)}
    tensors: dict[fx.Node, list[fx.Node]] = {}
    replaced = {}
    for node in nodes:
        if _updates_statistics(node):
            raise UnsupportedError([f"{node.target}: an update of the running statistics"])
        if counterpart(node) is not None:
            target: Any = node.args[0]
            tensor = tensors.setdefault(target, [target])
            replaced[node] = list(tensor)
            tensor.append(node)
            tensors[node] = tensor
    for tensor in tensors.values():
        _expect_unaliased(tensor, order)
    return replaced


def _expect_unaliased(tensor: list[fx.Node], order: dict[fx.Node, int]) -> None:
    """Checks that the tensor of these nodes is new memory and has no view before its last update.

    Raises:
        UnsupportedError: the tensor or a view may be read under another name.
    """
    last = order[tensor[-1]]
    users = {user for name in tensor for user in name.users if order.get(user, last) < last}
    if not all(map(_is_new, [tensor[0], *users.difference(tensor)])):
        raise UnsupportedError([f"{tensor[1].target}: an update of memory that other tensors may share"])


def _is_new(node: fx.Node) -> bool:
    """Whether the result of a node shares no memory with its operands."""
    operator = node.target
    if not isinstance(operator, OpOverload) or any(r.alias_info is not None for r in operator._schema.returns):
        return False
    is_composite = operator.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return not is_composite or operator._opname in _NEW_COMPOSITES


def _updates_statistics(node: fx.Node) -> bool:
    is_normalization = isinstance(node.target, OpOverload) and node.target._opname in _NORMALIZATIONS
    return is_normalization and node.args[_MEAN] is not None and node.args[_FLAG] is not False
