"""`flow.one_embedding`: rows of tables train as the rows of `nn.Embedding` do, eagerly, compiled and in graphs."""

import copy

import numpy as np
import pytest

import oneflow as flow
from oneflow import one_embedding as oe
from oneflow.dialect import embedding_tables

IDS = np.asarray([[1, 2, 1], [3, 1, 2]])
OPTIMIZERS = {
    "sgd": (1, lambda p: flow.optim.SGD(p, lr=0.1)),
    "momentum": (2, lambda p: flow.optim.SGD(p, lr=0.1, momentum=0.9)),
    "adam": (3, lambda p: flow.optim.Adam(p, lr=0.1, betas=(0.8, 0.9))),
    "adagrad": (2, lambda p: flow.optim.Adagrad(p, lr=0.1, lr_decay=0.5, initial_accumulator_value=0.3)),
    "ftrl": (3, lambda p: oe.Ftrl(p, lr=0.1, lr_power=0.5, lambda1=0.01, lambda2=0.02, beta=0.1)),
}


def store(path="unused", **sizes):
    return oe.make_device_mem_store_options(str(path), 100, **sizes)


def module(name, size_factor=1, path="unused", dim=4, kind=oe.MultiTableEmbedding, tables=None, **more):
    embedding_tables.drop(name)
    tables = tables or [oe.make_table(oe.make_uniform_initializer(-1, 1))]
    return kind(name, dim, flow.float32, flow.int64, tables, store(path, size_factor=size_factor), **more)


def rows(embedding, ids):
    with flow.no_grad():
        return embedding(flow.tensor(np.asarray(ids))).numpy()


@pytest.mark.parametrize(("name", "mode"), [("sgd", "eager"), *((name, "compiled") for name in OPTIMIZERS)])
def test_rows_train_as_those_of_an_embedding(name, mode):
    """All rows have a gradient at every step, so that a dense update is the same."""
    size_factor, make = OPTIMIZERS[name]
    sparse, dense = module(f"{name} {mode}", size_factor), flow.nn.Embedding(4, 4)
    flow.nn.init.zeros_(dense.weight)
    with flow.no_grad():
        dense.weight[1:] = flow.tensor(rows(sparse, [1, 2, 3]))
    ids = flow.tensor(IDS)
    losses = []
    for embedding in (sparse, dense):
        optimizer = make(embedding.parameters())

        def step(ids, embedding=embedding, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (embedding(ids).square() * flow.tensor(np.asarray([1, 2, 3, 4], np.float32))).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = flow.compile(step) if mode == "compiled" else step
        losses.append([float(run(ids)) for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][2] < losses[0][0]
    np.testing.assert_allclose(rows(sparse, [1, 2, 3]), dense.weight.numpy()[1:], rtol=1e-5, atol=1e-6)


def test_a_graph_trains_rows():
    """As OneFlow's documents do, with several tables of several columns."""
    columns = [oe.make_column_options(oe.make_constant_initializer(value)) for value in (1.0, 2.0)]
    tables = [oe.make_table_options(columns), oe.make_table_options(oe.make_constant_initializer(3.0))]
    embedding = module("graph", dim=[2, 1], kind=oe.MultiTableMultiColumnEmbedding, tables=tables)

    class Train(flow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.embedding = embedding
            self.add_optimizer(oe.Optimizer(flow.optim.SGD(embedding.parameters(), lr=0.5), [embedding]))

        def build(self, ids):
            loss = self.embedding(ids).sum()
            loss.backward()
            return loss

    graph, ids = Train(), flow.tensor(np.asarray([[7, 8], [7, 9]]))
    assert float(graph(ids)) == 2 * (1 + 1 + 2) + 2 * 9
    assert float(graph(ids)) == 2 * (1 + 1 + 2 - 3) + 2 * (9 - 1.5)
    np.testing.assert_array_equal(rows(embedding, [[7, 8], [5, 5]])[0], [[-1, -1, 0], [2, 2, 2]])


def test_a_copied_module_trains_the_same_rows():
    embedding = module("copied", tables=[oe.make_table(oe.make_constant_initializer(1))])
    copied = copy.deepcopy(embedding).double()
    for each in (embedding, copied):
        optimizer = flow.optim.SGD(each.parameters(), lr=0.5)
        each(flow.tensor(IDS)).sum().backward()
        optimizer.step()
    np.testing.assert_array_equal(rows(embedding, [1, 2, 3])[:, 0], [1 - 3, 1 - 2, 1 - 1])
    assert rows(copied, IDS).dtype == np.float64


def test_rows_of_padding_stay():
    embedding = module("padded", padding_idx=2, tables=[oe.make_table(oe.make_constant_initializer(1))])
    optimizer = flow.optim.SGD(embedding.parameters(), lr=0.5)
    embedding(flow.tensor(IDS)).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(rows(embedding, [1, 2, 3])[:, 0], [1 - 0.5 * 3, 0, 0.5])
    assert 2 not in embedding.table.items()[0]


def test_snapshots(tmp_path):
    embedding = module("kept", path=tmp_path)
    optimizer = flow.optim.SGD(embedding.parameters(), lr=0.5)
    embedding(flow.tensor(IDS)).sum().backward()
    optimizer.step()
    embedding.save_snapshot("first")
    before = rows(embedding, [1, 2, 3])
    embedding(flow.tensor(IDS)).sum().backward()
    optimizer.step()
    assert (rows(embedding, [1, 2, 3]) != before).all()
    embedding.load_snapshot("first")
    np.testing.assert_array_equal(rows(embedding, [1, 2, 3]), before)
    read = oe.make_persistent_table_reader([str(tmp_path)], "first", flow.int64, flow.float32, 4)
    held = {int(i): row for ids, values in read for i, row in zip(ids, values, strict=True)}
    np.testing.assert_array_equal([held[i] for i in (1, 2, 3)], before)
    with oe.make_persistent_table_writer([str(tmp_path)], "second", flow.int64, flow.float32, 4) as writer:
        writer.write(np.asarray([1, 9]), np.full((2, 4), 7, np.float32))
        with pytest.raises(ValueError, match="expected keys of i64"):
            writer.write(np.asarray([1.0]), np.full((1, 4), 7, np.float32))
    embedding.load_snapshot("second")
    np.testing.assert_array_equal(rows(embedding, [9, 1]), np.full((2, 4), 7))


def test_refused_embedding_tables():
    embedding, ids = module("refused"), flow.tensor(IDS)
    with pytest.raises(ValueError, match="expected ids of type"):
        embedding(flow.tensor(IDS.astype(np.int32)))
    with pytest.raises(ValueError, match="expected one of the optimizers SGD, Adam"):
        oe.Optimizer(flow.optim.RMSprop(embedding.parameters()), [embedding])
    with pytest.raises(ValueError, match="expected a group without nesterov"):
        oe.Optimizer(flow.optim.SGD(embedding.parameters(), momentum=0.5, nesterov=True), [embedding])
    with pytest.raises(ValueError, match="expected the parameter of 'refused'"):
        oe.Optimizer(flow.optim.SGD(module("other").parameters()), [embedding])
    embedding(ids)
    with pytest.raises(ValueError, match="expected an update of 'refused' between lookups"):
        embedding(ids)
    embedding.looked_up = None
    flow.compile(lambda ids: embedding(ids).sum())(ids).backward()
    with pytest.raises(ValueError, match="expected the step in the function that looks 'refused' up"):
        flow.optim.SGD(embedding.parameters()).step()
    with pytest.raises(ValueError, match="expected rows of 4 float32, as in the table 'refused'"):
        oe.MultiTableEmbedding("refused", 5, flow.float32, flow.int64, None, store())
    with pytest.raises(ValueError, match="expected columns of 4 numbers together"):
        module("columns", tables=[oe.make_table([])])
    with pytest.raises(ValueError, match="expected an initializer of one of"):
        module("initializer", tables=[oe.make_table({"type": "even"})])
    with pytest.raises(ValueError, match="expected an initializer or a list of columns"):
        oe.make_table(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected capacity above 0"):
        oe.make_device_mem_store_options("path", 0)
