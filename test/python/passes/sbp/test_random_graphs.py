"""Random graphs under random annotations: all ranks together compute the results of one device."""

import itertools

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import functions, run
from sbp_programs import check_distributed, run_passes

from oneflow.dialect._mlir import ir
from oneflow.dialect.ir_builder import IRBuilder
from oneflow.dialect.nd_sbp import write_nd_sbp
from oneflow.dialect.reader import read_module
from oneflow.dialect.record import REGISTRY
from oneflow.dialect.sbp import B, P, S

#: How a value (or two) becomes another: operator, number of operands, attributes for operands of rank 2.
UNARY = [
    ("relu", {}),
    ("negative", {}),
    ("tanh", {}),
    ("softmax", {}),
    ("transpose", {"perm": [1, 0]}),
    ("reduce_sum", {"axis": [0], "keepdims": True}),
    ("reduce_max", {"axis": [1], "keepdims": True}),
    ("reshape", {"shape": [-1, 1]}),
    ("dropout", {"rate": 0.5, "seed": 3}),
    ("narrow", {"dim": 0, "start": 0, "length": 1}),
    ("pad", {"padding_before": [0, 1], "padding_after": [0, 0]}),
]
BINARY = ["broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_maximum", "matmul", "cat"]
MESHES = [(2,), (3,), (1, 2), (2, 2), (2, 3)]


def layouts(mesh, rank, sums=True):
    kinds = [B, *([P] if sums else []), *(S(i) for i in range(rank))]
    return list(itertools.product(kinds, repeat=len(mesh)))


def can_call(name, a, b):
    if name == "matmul":
        return a.shape[1] == b.shape[0]
    if name == "cat":
        return a.shape[1] == b.shape[1]
    return all(d == e or 1 in (d, e) for d, e in zip(a.shape, b.shape, strict=True))


def grow(draw, ops, values, mesh):
    """A further operator on earlier values, or a cast."""
    kind = draw(st.sampled_from(["unary", "binary", "binary", "cast"]))
    a = draw(st.sampled_from(values))
    if kind == "cast":
        return ops.hierarchical_parallel_cast(a, nd_sbp=draw(st.sampled_from(layouts(mesh, a.rank))))
    if kind == "unary":
        name, attrs = draw(st.sampled_from(UNARY))
        return ops.call(name, a, **attrs)[0]
    pairs = [(n, b) for n in BINARY for b in values if can_call(n, a, b)]
    name, b = draw(st.sampled_from(pairs))
    return ops.cat([a, b], axis=0) if name == "cat" else ops.call(name, a, b)[0]


def annotations(draw, mesh, descs):
    """Layouts for some of these tensors."""
    return [draw(st.none() | st.sampled_from(layouts(mesh, d.rank))) for d in descs]


def write_annotations(function, name, nds):
    empty = ir.DictAttr.get({})
    attrs = [empty if nd is None else ir.DictAttr.get({"oneflow.nd_sbp": write_nd_sbp(nd)}) for nd in nds]
    function.attributes[name] = ir.ArrayAttr.get(attrs)


@st.composite
def programs(draw):
    """The text of an annotated function, the mesh of the function, and a strategy."""
    from_sizes = st.integers(1, 7)
    mesh = draw(st.sampled_from(MESHES))
    shapes = draw(st.lists(st.tuples(from_sizes, from_sizes), min_size=1, max_size=3))
    arguments = ", ".join(f"%x{i}: tensor<{r}x{c}xf64>" for i, (r, c) in enumerate(shapes))
    module = ir.Module.parse(f"func.func @main({arguments}) {{ return }}")
    function = module.body.operations[0].operation
    block = function.regions[0].blocks[0]
    last = block.operations[0].operation
    ops = IRBuilder(REGISTRY, ir.InsertionPoint(last))
    values = [ops.wrap(a) for a in block.arguments]
    for _ in range(draw(st.integers(1, 7))):
        values.append(grow(draw, ops, values, mesh))
    results = values[-draw(st.integers(1, len(values))) :]
    ir.Operation.create("func.return", [], [v.handle for v in results], ip=ir.InsertionPoint(last))
    last.erase()
    kind = ir.FunctionType.get([a.type for a in block.arguments], [v.handle.type for v in results])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    write_annotations(function, "arg_attrs", annotations(draw, mesh, [v.desc for v in values[: len(shapes)]]))
    write_annotations(function, "res_attrs", annotations(draw, mesh, [v.desc for v in results]))
    return str(module), mesh, draw(st.sampled_from(["greedy", "auto"]))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_random_graphs(data, context):
    """Programs with random annotations and either strategy compute the results of one device."""
    with context, ir.Location.unknown():
        text, mesh, strategy = data.draw(programs())
        module = read_module(text, context)
        function = functions(module)["main"]
        rng = np.random.default_rng(2)
        arrays = [rng.normal(size=a.type.shape) for a in function.regions[0].blocks[0].arguments]
        want = run(function, arrays)
        sizes = ",".join(map(str, mesh))
        run_passes(module, f"oneflow-infer-sbp{{mesh={sizes} strategy={strategy}}}", "oneflow-insert-boxing")
        check_distributed(module, arrays, want)
        run_passes(module, f"oneflow-join-boxing{{bytes={data.draw(st.sampled_from([0, 200, 1 << 25]))}}}")
        check_distributed(module, arrays, want)
        run_passes(module, "oneflow-to-physical{check=true}")
