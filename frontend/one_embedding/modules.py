"""Modules that look embeddings up in tables in host memory.

    embedding = flow.one_embedding.MultiTableEmbedding("users", 16, flow.float32, flow.int64, tables, store_options)
    optimizer = flow.optim.SGD(embedding.parameters(), lr=0.1)

The only parameter, `shadow`, stands for the tables. A step of an optimizer with this parameter updates the rows of
the ids that were looked up. Outside of compiled functions, ids may be a global tensor: the processes of the job share
the rows then (`ranks.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneflow.dialect import embedding_tables
from oneflow.dialect.dtypes import DType
from oneflow.dialect.record import REGISTRY
from oneflow.frontend import comm, env
from oneflow.frontend import functional as F  # noqa: N812
from oneflow.frontend.core.arrays import is_on_ranks
from oneflow.frontend.core.devices import move
from oneflow.frontend.core.dispatch import as_tensor, current_builder, dispatch, dispatch_all
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.eager.tape import is_grad_enabled
from oneflow.frontend.eager.tensor import EagerTensor, wrapped
from oneflow.frontend.global_tensor import to_global
from oneflow.frontend.nn.module import Module, Parameter
from oneflow.frontend.one_embedding import ranks
from oneflow.frontend.one_embedding.optimizers import expect_update, update_of
from oneflow.frontend.one_embedding.options import (
    Options,
    make_column_options,
    make_constant_initializer,
    make_normal_initializer,
)
from oneflow.frontend.optim import optimizer as base
from oneflow.frontend.optim.optimizer import Group
from oneflow.frontend.tracing.capture import layout_of

__all__ = ["MultiTableEmbedding", "MultiTableMultiColumnEmbedding", "Optimizer"]


class Shadow(Parameter):
    """The parameter that stands for a table: steps of optimizers also call `update_rows`."""

    __slots__ = ("update_rows",)
    update_rows: Callable[[base.Optimizer, Group, Tensor, Any], None]


@dataclass
class Lookup:
    """Ids, the tables of the ids, the leaf that is added to the embeddings, and the builder of the program."""

    builder: Any
    change: EagerTensor
    ids: Tensor
    table_ids: Tensor | None


class MultiTableEmbedding(Module):
    """Embeddings of `embedding_dim` elements for the ids of several tables.

    Modules of one name share the rows, which are part of snapshots, but not of `state_dict`. An id that no optimizer
    has updated has the initial row of the table.

    Args:
        name: the name of the store.
        embedding_dim: the number of elements of an embedding.
        dtype: the type of the numbers.
        key_type: the type of ids.
        tables: the tables, results of `make_table_options`; None for one table with `default_initializer`.
        store_options: the result of one of the functions `make_*_store_options`.
        default_initializer: the initializer of that table; None for normal numbers with a standard deviation of 0.05.
        padding_idx: an id whose embedding is 0 and never updated.
        seed: the seed of initial rows.

    Raises:
        ValueError: tables, sizes or options do not fit each other, or existing rows of the name have another size.
    """

    def __init__(
        self,
        name: str,
        embedding_dim: int,
        dtype: DType,
        key_type: DType,
        tables: Sequence[Options] | None,
        store_options: Options,
        default_initializer: Options | None = None,
        padding_idx: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        dims = _dims(embedding_dim)
        self.embedding_name, self.dtype, self.key_type, self.seed = name, dtype, key_type, seed
        self.embedding_dim = sum(dims)
        own = store_options["storage_dim"]
        self.storage_dim = own if own != -1 else store_options["size_factor"] * self.embedding_dim
        stated = [_columns(t, len(dims)) for t in tables or [{"initializer": default_initializer or _DEFAULT}]]
        self.num_tables, self.padding_idx = len(stated), padding_idx
        self.embedding_tables = json.dumps({"column_dims": dims, "tables": [{"columns": c} for c in stated]})
        embedding_tables.read_initializers(self.embedding_tables, "", self.embedding_dim, self.storage_dim)
        path = store_options["kv_store"]["persistent_table"]["path"]
        self.folder = Path(path if isinstance(path, str) else path[0])
        embedding_tables.table(name, self.storage_dim, dtype.numpy)
        self.shadow = Shadow(np.zeros(1, dtype.numpy))
        #: The lookup that has no update yet.
        self.looked_up: Lookup | None = None
        #: Leaves of compiled functions by shape, dtype and device, see `_change_of`.
        self.changes: dict[tuple[tuple[int, ...], DType, str], EagerTensor] = {}

    def forward(self, ids: Any, table_ids: Any = None) -> Tensor:
        """The embeddings of `ids`, along a last axis.

        Args:
            ids: of any shape; without `table_ids` and with several tables, a column for each table.
            table_ids: the index of the table of each id.

        Raises:
            ValueError: ids are of another type, or embeddings were looked up before that have no update yet.
        """
        ids = as_tensor(ids)
        if ids.dtype != self.key_type:
            raise ValueError(f"expected ids of type {self.key_type.mlir}, got {ids.dtype.mlir}")
        table_ids = None if table_ids is None else as_tensor(table_ids)
        is_global = isinstance(ids, EagerTensor) and is_on_ranks(ids.storage)
        if is_global:
            ranks.expect_all_ranks(ids, self.embedding_name)
            layout, ids, table_ids = ids, ranks.whole(ids), None if table_ids is None else ranks.whole(table_ids)
        embeddings = self._embeddings(ids, table_ids)
        if is_global:
            own = F.unsqueeze(ranks.owned(ids), -1)
            embeddings = ranks.sum_of_shards(F.where(own, embeddings, 0.0), layout)
        if not is_grad_enabled() or not self.shadow.requires_grad:
            return embeddings
        if self.looked_up is not None and self.looked_up.builder is current_builder():
            raise ValueError(
                f"expected an update of {self.embedding_name!r} between lookups that are trained: call step() of"
                " its optimizer, or look up under flow.no_grad()"
            )
        self.shadow.update_rows = self.update_rows  # a copied module has a copied parameter
        change = self._change_of(embeddings)
        self.looked_up = Lookup(current_builder(), change, ids, table_ids)
        return dispatch("broadcast_add", embeddings, change)

    def _embeddings(self, ids: Tensor, table_ids: Tensor | None) -> Tensor:
        """The embeddings of ids in the rows of this process."""
        padding = {} if self.padding_idx is None else {"padding_idx": self.padding_idx, "has_padding_idx": True}
        return dispatch(
            "one_embedding_fused_lookup", self.shadow, ids, table_ids, dtype=self.dtype, num_tables=self.num_tables,
            embedding_tables=self.embedding_tables, seed=self.seed, **self.sizes, **padding,
        )  # fmt: skip

    def _change_of(self, embeddings: Tensor) -> EagerTensor:
        """Zeros that are added to embeddings: a leaf, whose gradient is the gradient of the embeddings.

        A compiled function reads the leaf at every run, so the module keeps it.
        """
        shape, dtype, device = tuple(embeddings.shape), self.shadow.dtype, self.shadow.device
        key = shape, dtype, str(device)
        change = None if isinstance(embeddings, EagerTensor) else self.changes.get(key)
        if change is None:
            change = wrapped(move(np.zeros(shape, dtype.numpy), device))
            layout = layout_of(embeddings)
            change = (change if layout is None else to_global(change, *layout)).requires_grad_()
        if not isinstance(embeddings, EagerTensor):
            self.changes[key] = change
        return change

    @property
    def table(self) -> embedding_tables.Table:
        """The rows, which modules of one name share."""
        return embedding_tables.table(self.embedding_name, self.storage_dim, self.dtype.numpy)

    @property
    def sizes(self) -> dict[str, Any]:
        """The attributes of operators on the rows."""
        name = self.embedding_name
        return {"line_size": self.storage_dim, "embedding_size": self.embedding_dim, "embedding_name": name}

    def update_rows(self, optimizer: base.Optimizer, group: Group, rate: Tensor, steps: Any) -> None:
        """Updates the rows of the last lookup that have a gradient, by the formula of an optimizer.

        Args:
            optimizer: whose step it is.
            group: the settings; with `weight_decay` rows also decay by `rate * weight_decay`.
            rate: the learning rate.
            steps: the number of steps before, if the optimizer counts steps.

        Raises:
            ValueError: the optimizer has no update of rows, or the lookup was in another function, which is compiled.
        """
        lookup, self.looked_up = self.looked_up, None
        if lookup is None:
            return
        if lookup.builder is not current_builder():
            raise ValueError(f"expected the step in the function that looks {self.embedding_name!r} up")
        gradient, lookup.change.grad = lookup.change.grad, None
        if gradient is None:
            return
        if layout_of(gradient) is not None:
            lookup, gradient = self._own_share(lookup, ranks.whole(gradient))
            if not gradient.shape[0]:
                return
        (name, operands, numbers), states = update_of(type(optimizer), group, steps)
        count, ids, rows, sums = self._rows_of(lookup, gradient, states)
        operands |= {"num_unique_ids": count, "unique_embeddings": rows, "embedding_grad": sums}
        operands["learning_rate"] = dispatch("reshape", rate, shape=[1])
        operator = f"one_embedding_{name}"
        ordered = [operands.get(arg.name) for arg in REGISTRY[operator].signature.inputs]
        new = dispatch(operator, *ordered, weight_decay=group["weight_decay"], **numbers, **self.sizes)
        put = {"line_size": self.storage_dim, "embedding_name": self.embedding_name}
        dispatch("embedding_put", count, ids, new, **put)

    def _own_share(self, lookup: Lookup, gradient: Tensor) -> tuple[Lookup, Tensor]:
        """The ids of a lookup of which this process has the rows, with their tables, and the gradients of these."""
        ids = F.reshape(lookup.ids, (-1,))
        tables = (
            F.remainder(F.arange(ids.shape[0]), self.num_tables) if lookup.table_ids is None else lookup.table_ids
        )
        at = F.reshape(F.nonzero(ranks.owned(ids)), (-1,))
        share = (F.index_select(F.reshape(x, (-1, *rest)), 0, at) for x, rest in (
            (ids, ()), (tables, ()), (gradient, gradient.shape[-1:])
        ))  # fmt: skip
        own_ids, own_tables, own_gradient = share
        return Lookup(lookup.builder, lookup.change, own_ids, own_tables), own_gradient

    def _rows_of(
        self, lookup: Lookup, gradient: Tensor, states: Sequence[float]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The number of distinct ids of a lookup, the distinct ids, the rows, and the sums of gradients by id."""
        padding = {} if self.padding_idx is None else {"padding_idx": self.padding_idx, "has_padding_idx": True}
        name = {"embedding_name": self.embedding_name}
        matrix, partition_indices, count, ids, tables, inverse = dispatch_all(
            "id_shuffle", lookup.ids, lookup.table_ids, num_tables=self.num_tables, **padding, **name
        )
        size = {"embedding_size": self.embedding_dim, **name}
        sums = dispatch("embedding_gradient_shuffle", gradient, matrix, inverse, partition_indices, **size)
        rows, _ = dispatch_all(
            "embedding_lookup", count, ids, tables, None, dtype=self.dtype, embeddings_dtype=self.dtype,
            embedding_tables=self.embedding_tables, seed=self.seed, **self.sizes,
            state_initializer=json.dumps([make_constant_initializer(value) for value in states]),
        )  # fmt: skip
        return count, ids, rows, sums

    def save_snapshot(self, snapshot_name: str) -> None:
        """Writes the rows to the folder `snapshots/<snapshot_name>` of the store's path.

        Every process of a job of several writes its rows to a folder there, and all have to make the call.
        """
        folder, size = self.folder / "snapshots" / snapshot_name, env.get_world_size()
        if size == 1:
            self.table.save(folder)
        else:
            self.table.save(folder / f"{env.get_rank()}", (size, env.get_rank()))
            comm.barrier()

    def load_snapshot(self, snapshot_name: str) -> None:
        """Replaces the rows by the rows of a snapshot.

        Raises:
            OSError: the snapshot does not exist.
            ValueError: the rows of the snapshot have another size or type.
        """
        self.table.load(self.folder / "snapshots" / snapshot_name)


class MultiTableMultiColumnEmbedding(MultiTableEmbedding):
    """As `MultiTableEmbedding`, with a list of sizes as `embedding_dim`: each column has a separate initializer."""


def Optimizer(optimizer: base.Optimizer, embeddings: Sequence[MultiTableEmbedding]) -> base.Optimizer:  # noqa: N802
    """`optimizer`, whose steps update the rows of `embeddings`.

    Raises:
        ValueError: the optimizer has no update of rows, or lacks the parameter of an embedding.
    """
    for group in optimizer.param_groups:
        expect_update(type(optimizer), group)
    parameters = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for embedding in embeddings:
        if id(embedding.shadow) not in parameters:
            raise ValueError(f"expected the parameter of {embedding.embedding_name!r} in a group of the optimizer")
    return optimizer


_DEFAULT = make_normal_initializer(0.0, 0.05)


def _dims(embedding_dim: Any) -> list[int]:
    dims = list(embedding_dim) if isinstance(embedding_dim, (list, tuple)) else [embedding_dim]
    if not dims or not all(isinstance(d, int) and d > 0 for d in dims):
        raise ValueError(f"expected embedding_dim above 0, or a list of such numbers, got {embedding_dim!r}")
    return dims


def _columns(table: Options, count: int) -> list[Options]:
    """The columns of a table: the stated columns, or `count` columns with the one initializer of the table."""
    if "columns" in table:
        return list(table["columns"])
    return [make_column_options(table["initializer"])] * count
