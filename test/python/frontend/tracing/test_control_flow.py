"""`scan`, `while_loop`, `cond`: values and gradients, in eager mode and compiled, and refused calls."""

import numpy as np
import pytest

import oneflow as flow
from oneflow.lowering.pipelines import pipeline_between
from oneflow.passes.pipeline import Pipeline, PipelineFailure
from oneflow.runtime.size_specialization import compile_program

RNG = np.random.default_rng(0)
H, X, W = (RNG.standard_normal(s).astype(np.float32) for s in ((2, 3), (4, 2, 3), (3, 3)))
MODES = pytest.mark.parametrize("mode", [lambda f: f, flow.compile], ids=["eager", "compiled"])


def cell_by_numpy(h, xs, w):
    ys = []
    for x in xs:
        y = h @ w
        h = np.tanh(y + x)
        ys.append(y)
    return h, np.stack(ys)


def cell(w):
    def step(h, x):
        y = h @ w
        return flow.tanh(y + x), y

    return step


@MODES
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_the_steps_one_after_another(mode, reverse):
    given = X[::-1] if reverse else X
    last, ys = mode(lambda h, x, w: flow.scan(cell(w), h, x, reverse=reverse))(*map(flow.tensor, (H, X, W)))
    want = cell_by_numpy(H, given, W)
    np.testing.assert_allclose(last.numpy(), want[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ys.numpy(), want[1][::-1] if reverse else want[1], rtol=1e-5, atol=1e-6)


@MODES
def test_states_and_results_are_nested(mode):
    """States that include integers, results None, and a result that is a single element."""

    def step(state, x):
        return {"n": state["n"] + 1, "sum": state["sum"] + x["a"]}, (x["b"], None)

    def run(a, b):
        return flow.scan(step, {"n": flow.tensor(0), "sum": flow.zeros(3)}, {"a": a, "b": b})

    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([5, 7])
    state, (given, nothing) = mode(run)(flow.tensor(a), flow.tensor(b))
    assert state["n"].item() == 2 and nothing is None
    np.testing.assert_array_equal(state["sum"].numpy(), a.sum(0))
    np.testing.assert_array_equal(given.numpy(), b)


@MODES
def test_scan_without_sequences(mode):
    last, ys = mode(lambda x: flow.scan(lambda s, _: (s * 2, s), x, length=5))(flow.tensor([1.0, 3.0]))
    assert last.tolist() == [32.0, 96.0] and ys.shape == (5, 2) and ys[4].tolist() == [16.0, 48.0]


def test_a_scan_without_steps_returns_the_state():
    last, ys = flow.compile(lambda h, x: flow.scan(lambda h, x: (h + x, h), h, x))(flow.ones(2), flow.zeros(0, 2))
    assert last.tolist() == [1.0, 1.0] and ys.shape == (0, 2)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_flow_through_a_scan_to_what_it_reads(reverse):
    """By the state, the elements and a captured parameter, as through the unrolled steps."""

    def loss(h, x, w, steps):
        last, ys = steps(cell(w), h, x)
        return (last * last).sum() + (ys * ys * ys).sum()

    def unrolled(step, h, x):
        ys = []
        for number in reversed(range(4)) if reverse else range(4):
            h, y = step(h, x[number])
            ys.append(y)
        return h, flow.stack(ys)

    def scanned(step, h, x):
        return flow.scan(step, h, x, reverse=reverse)

    tensors = [flow.tensor(a) for a in (H, X, W)]
    want = flow.grad(lambda h, x, w: loss(h, x, w, unrolled), (0, 1, 2))(*tensors)
    for function in (flow.compile, lambda f: f):
        got = function(flow.grad(lambda h, x, w: loss(h, x, w, scanned), (0, 1, 2)))(*tensors)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_backward_through_a_compiled_scan_reaches_parameters():
    w = flow.tensor(W, requires_grad=True)

    @flow.compile
    def run(x):
        return flow.scan(cell(w), flow.tensor(H), x)[0].sum()

    run(flow.tensor(X)).backward()
    found, w.grad = w.grad.numpy(), None
    flow.scan(cell(w), flow.tensor(H), flow.tensor(X))[0].sum().backward()
    np.testing.assert_allclose(found, w.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_no_gradient_flows_where_a_body_records_none():
    def step(h, x):
        with flow.no_grad():
            factor = h * 2
        return h + factor * x, None

    def run(h):
        return flow.scan(step, h, flow.ones(3))[0]

    want = flow.grad(run)(flow.tensor(1.0))
    assert flow.compile(flow.grad(run))(flow.tensor(1.0)).item() == want.item() == 1.0


def test_nested_control_flow():
    """A loop in a scan in a branch, with a tensor from outside of all."""

    def run(p, xs, limit):
        def step(n, x):
            grown = flow.while_loop(lambda s: s < limit, lambda s: s * 2, x)
            return n + grown, grown

        return flow.cond(p, lambda xs: flow.scan(step, flow.tensor(0.0), xs), lambda xs: (xs.sum(), -xs), xs)

    xs, limit = flow.tensor([1.0, 3.0, 20.0]), flow.tensor(10.0)
    for p, total, each in ((True, 48.0, [16.0, 12.0, 20.0]), (False, 24.0, [-1.0, -3.0, -20.0])):
        for function in (run, flow.compile(run)):
            got = function(flow.tensor(p), xs, limit)
            assert got[0].item() == total and got[1].tolist() == each


@MODES
def test_a_loop_that_does_not_run_gives_the_state(mode):
    got = mode(lambda x: flow.while_loop(lambda s: s.sum() < 0, lambda s: s + 1, x))(flow.tensor([1.0]))
    assert got.tolist() == [1.0]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_loop_returns_the_buffer_of_its_last_step(steps):
    run = flow.compile(
        lambda x: flow.while_loop(lambda s: s[0] < steps, lambda s: (s[0] + 1, s[1] * 3), (flow.tensor(0), x))
    )
    assert run(flow.tensor([2.0]))[1].tolist() == [2.0 * 3**steps]


@pytest.mark.parametrize("holds", [True, False])
def test_gradients_flow_through_the_branch_that_runs(holds):
    def run(p, x, w):
        return flow.cond(p, lambda x: x.sin() * w, lambda x: x * 3, x).sum()

    arguments = flow.tensor(holds), flow.tensor([0.5, 2.0]), flow.tensor(4.0)
    got = flow.compile(flow.grad(run, (1, 2)))(*arguments)
    want = ([4 * np.cos(0.5), 4 * np.cos(2.0)], np.sin(0.5) + np.sin(2.0)) if holds else ([3.0, 3.0], 0.0)
    np.testing.assert_allclose(got[0].numpy(), want[0], rtol=1e-6)
    np.testing.assert_allclose(got[1].numpy(), want[1], rtol=1e-6)


def test_only_the_branch_that_runs_is_checked():
    run = flow.compile(lambda x, at: flow.cond(at < 2, lambda: x[at], lambda: x[0] * 0 - 1))
    x = flow.tensor([5.0, 6.0])
    assert run(x, flow.tensor(1)).item() == 6.0
    assert run(x, flow.tensor(7)).item() == -1.0


def test_a_failed_check_in_a_body_is_an_error_at_its_line():
    run = flow.compile(lambda x, at: flow.scan(lambda s, i: (s + x[i], None), flow.tensor(0.0), at)[0])
    assert run(flow.tensor([5.0, 6.0]), flow.tensor([0, 1, 1])).item() == 17.0
    with pytest.raises(Exception, match=r"test_control_flow.py:\d+.*expected.*got 9|9"):
        run(flow.tensor([5.0, 6.0]), flow.tensor([0, 9, 1])).item()


def test_random_numbers_of_a_branch_differ_between_runs():
    run = flow.compile(lambda p, x: flow.cond(p, lambda x: x + flow.rand(3), lambda x: x, x))
    first, second = (run(flow.tensor(True), flow.zeros(3)).tolist() for _ in range(2))
    assert first != second


def add_in_place(h, x):
    h += x
    return h, None


def draw(h, x):
    return h + flow.rand(2), None


OUTSIDE = flow.zeros(2)


def write_outside(h, x):
    OUTSIDE.add_(x)
    return h, None


ERRORS = {
    "type": (lambda h, x: (h.double(), None), "expected state 0 to stay tensor<2xf32>, got tensor<2xf64>"),
    "structure": (lambda h, x: ((h, h), None), "expected states of the structure"),
    "pair": (lambda h, x: h, "expected f to return a pair"),
    "in place": (add_in_place, "is an argument or from outside; return the new value"),
    "outside": (write_outside, "is an argument or from outside; return the new value"),
    "random": (draw, "would draw the same numbers in every step; draw the numbers"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bodies_that_are_refused(name):
    step, text = ERRORS[name]
    with pytest.raises(flow.OneFlowError, match=text) as error:
        flow.compile(lambda h, x: flow.scan(step, h, x)[0])(flow.zeros(2), flow.zeros(3, 2))
    assert error.value.location and error.value.location.file == __file__


@MODES
def test_sequences_of_different_lengths_are_refused(mode):
    with pytest.raises(flow.OneFlowError, match=r"expected sequences of one size along dimension 0.*\[2, 3\]"):
        mode(lambda a, b: flow.scan(lambda s, x: (s, x), a[0], (a, b)))(flow.zeros(2), flow.zeros(3))


def test_branches_of_different_types_are_refused():
    with pytest.raises(flow.OneFlowError, match="expected both functions to return the same types"):
        flow.compile(lambda p, x: flow.cond(p, lambda x: x, lambda x: x.double(), x))(
            flow.tensor(True), flow.zeros(2)
        )


def test_too_many_tensors_from_outside_are_refused():
    weights = [flow.tensor(float(n)) for n in range(64)]
    with pytest.raises(flow.OneFlowError, match="expected at most 64 for xs, got 66"):
        flow.compile(lambda x: flow.scan(lambda h, x: (sum(weights, h + x), None), flow.tensor(0.0), x)[0])(
            flow.ones(2)
        )


def test_a_loop_has_no_gradient():
    def run(x):
        return flow.while_loop(lambda s: s.sum() < 9, lambda s: s * 2, x).sum()

    with pytest.raises(flow.OneFlowError, match=r"while_loop has no gradient: the number of steps is not known"):
        flow.compile(flow.grad(run))(flow.ones(2))


def test_a_scan_is_one_operator_for_every_length():
    """The program of a recurrent layer does not grow with the sequence, and keeps the states of no inference."""
    layer = flow.nn.LSTM(3, 4)
    texts = []
    for length in (2, 50):
        compiled = flow.compile(layer)
        compiled(flow.zeros(length, 1, 3))
        texts.append(compiled.ir("oneflow"))
    assert texts[0].count("\n") == texts[1].count("\n") and texts[1].count('"oneflow.scan"') == 1


@pytest.mark.parametrize("layer", [flow.nn.LSTM, flow.nn.GRU])
def test_recurrent_layers_are_the_same_compiled(layer):
    flow.manual_seed(0)
    model = layer(3, 4, bidirectional=layer is flow.nn.GRU)
    x = flow.tensor(RNG.standard_normal((3, 2, 3)).astype(np.float32))

    def step(x):
        y, _ = model(x)
        loss = (y * y).sum()
        loss.backward()
        return y

    results = []
    for function in (step, flow.compile(step)):
        y = function(x).detach().numpy()
        results.append([y, *(p.grad.numpy().copy() for p in model.parameters())])
        for parameter in model.parameters():
            parameter.grad = None
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_body_is_lowered_once_for_every_step_on_a_gpu():
    """The plan has a loop, and the kernels of one step."""
    module = flow.trace(
        lambda h, x: flow.scan(lambda h, x: (flow.sin(h) + x, h), h, x),
        flow.TensorSpec((4,)),
        flow.TensorSpec((9, 4)),
    )
    with module.context:
        Pipeline.parse(pipeline_between(None, "triton"), module.context).run(module)
    plan = next(line for line in str(module).splitlines() if "oneflow.plan" in line)
    assert "in range(9)" in plan and plan.count("run.launch") == 1


@pytest.mark.parametrize("split", [0, 1, 2])
def test_bodies_of_global_tensors(split):
    """Split sequences, and ranks that choose the same branch."""
    two = flow.placement("cpu", ranks=[0, 1])

    def run(x, w):
        last, ys = flow.scan(cell(w), flow.zeros(2, 3), x)
        n = flow.while_loop(lambda s: s[0].sum() < 30, lambda s: (s[0] * 2, s[1] + 1), (x.abs(), flow.tensor(0)))[1]
        return last, ys, n, flow.cond(last.sum() > 99, lambda: last, lambda: last * 2)

    placed = flow.compile(lambda x, w: run(x.to_global(sbp=flow.sbp.split(split)), w), placement=two)
    for got, want in zip(placed(X, W), run(flow.tensor(X), flow.tensor(W)), strict=True):
        np.testing.assert_allclose(np.asarray(got), want.numpy(), rtol=1e-5, atol=1e-6)


def test_loops_on_a_part_of_the_ranks():
    """Each placement runs a separate loop, whose body has constants; a body is on one placement."""
    parts = [flow.placement("cpu", ranks=[0, 1]), flow.placement("cpu", ranks=[2])]
    split = [flow.sbp.split(1), flow.sbp.broadcast]

    def layers(xs, w, with_layout):
        for at, sbp in zip(parts, split, strict=True):
            xs = flow.scan(
                lambda h, x: ((h @ w + x + flow.ones(2, 3)).tanh(),) * 2, flow.zeros(2, 3), with_layout(xs, at, sbp)
            )[1]
        return xs

    def crossing(xs, w):
        return flow.scan(lambda h, x: (h, x.to_global(parts[1], flow.sbp.broadcast)), flow.zeros(2, 3), xs)[1]

    three = flow.placement("cpu", ranks=[0, 1, 2])
    placed = flow.compile(lambda x, w: layers(x, w, lambda x, at, sbp: x.to_global(at, sbp)), placement=three)
    want = layers(flow.tensor(X), flow.tensor(W), lambda x, at, sbp: x)
    np.testing.assert_allclose(np.asarray(placed(X, W)), want.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(PipelineFailure, match="expected bodies on one placement"):
        flow.compile(lambda x, w: crossing(x.to_global(parts[0], flow.sbp.broadcast), w), placement=three)(X, W)


def test_a_recurrent_layer_over_split_sequences_is_one_loop():
    """Gradients of the parameters, with a batch that is split unevenly."""
    two = flow.placement("cpu", ranks=[0, 1])
    layer = flow.nn.GRU(3, 4)
    xs = RNG.standard_normal((4, 5, 3)).astype(np.float32)
    weights = list(layer.parameters())

    def step(x):
        grads = flow.autograd.grad(layer(x)[0].square().sum(), weights)
        return [layer(x)[0], *grads]

    placed = flow.compile(lambda x: step(x.to_global(sbp=flow.sbp.split(1))), placement=two)
    want = step(flow.tensor(xs))
    for got, wanted in zip(placed(xs), want, strict=True):
        np.testing.assert_allclose(np.asarray(got), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert "oneflow.scan" in placed.ir("oneflow")


def test_control_flow_of_dynamic_sizes():
    """A recurrent layer over sequences of any length: the bodies take the sizes of each call."""
    layer = flow.nn.GRU(3, 4)
    module = flow.trace(lambda x: layer(x)[0], flow.TensorSpec((None, None, 3)))
    with module.context:
        run = compile_program(module, "lambda")
    for length, batch in ((2, 1), (3, 2)):
        x = RNG.standard_normal((length, batch, 3)).astype(np.float32)
        np.testing.assert_allclose(run(x)[0], layer(flow.tensor(x))[0].detach().numpy(), rtol=1e-5, atol=1e-6)
