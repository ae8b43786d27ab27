"""`autograd.functional`, `distributions`, `comm` of one process, `hub`, `utils.global_view`."""

import hashlib
import importlib
import io
import re
import shutil
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow.autograd import functional as AF  # noqa: N812
from oneflow.frontend.core.compilation import COMPILE_OPTIONS
from oneflow.lowering.options import AUTOTUNE, DETERMINISTIC, PRECISION

X, V = np.array([1, 2], np.float32), np.array([3, -1], np.float32)


def cubes(x):
    return x**3


def mixed(x, y):
    return (x * x * y).sum()


def test_products_with_jacobians():
    x, v = flow.tensor(X), flow.tensor(V)
    for product in (AF.vjp, AF.jvp):
        result, found = product(cubes, x, v)
        np.testing.assert_allclose(result.numpy(), X**3)
        np.testing.assert_allclose(found.numpy(), 3 * X**2 * V)
    np.testing.assert_allclose(AF.jacobian(cubes, x).numpy(), np.diag(3 * X**2))
    by_x, by_y = AF.jacobian(lambda x, y: flow.stack([x, y]), (x, v))
    np.testing.assert_array_equal(by_x[0].numpy(), np.eye(2))
    assert by_y.shape == (2, 2, 2) and not by_y[0].numpy().any()
    with pytest.raises(ValueError, match="expected v with the shapes"):
        AF.vjp(cubes, x, flow.ones(3))


def test_products_with_hessians():
    x, y, v = flow.tensor(X), flow.tensor(V), flow.tensor(np.array([1, -2], np.float32))
    np.testing.assert_allclose(AF.hessian(lambda x: cubes(x).sum(), x).numpy(), np.diag(6 * X))
    (_, xy), (yx, yy) = AF.hessian(mixed, (x, y))
    np.testing.assert_allclose(xy.numpy(), np.diag(2 * X))
    np.testing.assert_allclose(yx.numpy(), np.diag(2 * X))
    assert not yy.numpy().any()
    for product in (AF.vhp, AF.hvp):
        value, found = product(lambda x: cubes(x).sum(), x, v)
        assert value.item() == 9
        np.testing.assert_allclose(found.numpy(), 6 * X * v.numpy())
        _, (by_x, by_y) = product(mixed, (x, y), (v, v))
        np.testing.assert_allclose(by_x.numpy(), 2 * (V + X) * v.numpy())
        np.testing.assert_allclose(by_y.numpy(), 2 * X * v.numpy())


def test_distributions():
    flow.manual_seed(0)
    probs = flow.tensor([[1.0, 3.0], [1.0, 0.0]])
    choice = flow.distributions.Categorical(probs)
    assert choice.sample((5,)).shape == (5, 2) and choice.sample()[1].item() == 0
    np.testing.assert_allclose(choice.log_prob(flow.tensor([1, 0])).numpy(), [np.log(0.75), 0], atol=1e-6)
    np.testing.assert_allclose(choice.entropy().numpy(), [0.5623351, 0], atol=1e-6)
    normal = flow.distributions.Normal(flow.tensor([1.0]), flow.tensor([2.0]))
    drawn = normal.sample((4000,))
    assert abs(drawn.mean().item() - 1) < 0.1 and abs(drawn.std().item() - 2) < 0.1
    np.testing.assert_allclose(normal.log_prob(flow.tensor([2.0])).numpy(), [-1.737086], rtol=1e-5)
    coin = flow.distributions.Bernoulli(logits=flow.tensor([0.0]))
    np.testing.assert_allclose([coin.probs.item(), coin.entropy().item()], [0.5, np.log(2)], rtol=1e-6)
    sure = flow.distributions.Bernoulli(flow.tensor([1.0, 0.0]))
    # The values of PyTorch 2.13.
    np.testing.assert_allclose(sure.entropy().numpy(), [1.1920933e-07, 0], atol=2e-7)
    np.testing.assert_allclose(sure.log_prob(flow.tensor([1.0, 1.0])).numpy(), [0, -15.942385], atol=1e-5)
    uniform = flow.distributions.Uniform(flow.tensor([0.0]), flow.tensor([4.0]))
    assert uniform.log_prob(flow.tensor([5.0])).item() == -np.inf and uniform.mean.item() == 2
    with pytest.raises(ValueError, match="either probs or logits"):
        flow.distributions.Categorical(probs, probs)


def test_collectives_of_one_process():
    x, y = flow.tensor(X), flow.zeros(2)
    flow.comm.all_reduce(x)
    flow.comm.all_gather([y], x)
    assert x.tolist() == y.tolist() == [1, 2]
    out = flow.zeros(1, 2)
    flow.comm.all_gather_into_tensor(out, x)
    flow.comm.all_to_all([y], [x * 2])
    assert out.tolist() == [[1, 2]] and y.tolist() == [2, 4]
    for call in (flow.comm.broadcast, flow.comm.reduce):
        call(y, 0)
    flow.comm.scatter(y, [x])
    flow.comm.reduce_scatter(y, [x])
    flow.comm.barrier()
    assert y.tolist() == [1, 2]
    with pytest.raises(ValueError, match="another rank"):
        flow.comm.send(x, 0)


LIST = "expected a list of 1 tensors, one for each rank, for comm.{}, got "
TARGET = "expected a tensor<2xf32> of this process to write the result of comm.{} to, got "
PARTS = "expected a tensor of 2 elements of f32 of this process to write the result of comm.{} to, got "


@pytest.mark.parametrize(
    ("name", "call", "wanted", "got"),
    [
        ("all_gather", lambda c, x, _: c([], x), LIST, "a list of 0"),
        ("all_gather", lambda c, x, _: c(None, x), LIST, "None"),
        ("all_gather", lambda c, x, _: c(flow.ones(1, 2), x), LIST, "tensor("),
        ("all_gather", lambda c, x, y: c([y], x), TARGET, "tensor<3xf32>"),
        ("all_gather", lambda c, x, _: c([x.int()], x), TARGET, "tensor<2xi32>"),
        ("all_gather", lambda c, x, _: c([None], x), TARGET, "None"),
        ("all_gather_into_tensor", lambda c, x, y: c(y, x), PARTS, "tensor<3xf32>"),
        ("all_gather_into_tensor", lambda c, x, _: c(x.int(), x), PARTS, "tensor<2xi32>"),
        ("all_gather_into_tensor", lambda c, x, _: c(None, x), PARTS, "None"),
        ("all_to_all", lambda c, x, _: c([x], 3), LIST, "3"),
        ("all_to_all", lambda c, x, _: c([x, x], [x]), LIST, "a list of 2"),
        ("all_to_all", lambda c, x, y: c([y], [x]), TARGET, "tensor<3xf32>"),
        ("gather", lambda c, x, _: c(x), LIST, "None"),
        ("gather", lambda c, x, y: c(x, [y]), TARGET, "tensor<3xf32>"),
        ("reduce_scatter", lambda c, x, _: c(x, None), LIST, "None"),
        ("reduce_scatter", lambda c, x, y: c(y, [x]), TARGET, "tensor<3xf32>"),
        ("reduce_scatter_tensor", lambda c, x, y: c(y, x), PARTS, "tensor<3xf32>"),
        ("reduce_scatter_tensor", lambda c, x, _: c(x.double(), x), PARTS, "tensor<2xf64>"),
        ("scatter", lambda c, x, _: c(x), LIST, "None"),
        ("scatter", lambda c, x, y: c(x, [y]), "expected a list of tensor<2xf32> for comm.{}, got ", "tensor<3xf32>"),
        ("broadcast", lambda c, x, _: c(x, 1), "expected a rank in [0, 1) for comm.{}, got ", "1"),
        ("reduce", lambda c, x, _: c(x, -1), "expected a rank in [0, 1) for comm.{}, got ", "-1"),
        ("recv", lambda c, _, __: c(1), "expected another rank in [0, 1) for comm.{}, got ", "1"),
    ],
)
def test_refused_arguments_of_collectives(name, call, wanted, got):
    """The message has the line of the call, and no tensor changes."""
    x, y = flow.tensor(X), flow.zeros(3)
    line = re.escape(f"{__file__}:{call.__code__.co_firstlineno}: ")
    with pytest.raises(flow.OneFlowError, match=f"^{line}") as caught:
        call(getattr(flow.comm, name), x, y)
    assert wanted.format(name) + got in caught.value.text
    assert x.tolist() == [1, 2] and y.tolist() == [0, 0, 0]


def test_a_local_repository(tmp_path):
    (tmp_path / "hubconf.py").write_text("def double(x):\n    'Twice.'\n    return 2 * x\n")
    repository = str(tmp_path)
    assert flow.hub.list(repository, source="local") == ["double"]
    assert flow.hub.help(repository, "double", source="local") == "Twice."
    assert flow.hub.load(repository, "double", 4, source="local") == 8
    source = tmp_path / "file"
    source.write_bytes(b"abc")
    target = tmp_path / "made" / "copy"
    flow.hub.download_url_to_file(source.as_uri(), str(target), "ba7816bf", progress=False)
    assert target.read_bytes() == b"abc"
    with pytest.raises(RuntimeError, match="whose SHA-256"):
        flow.hub.download_url_to_file(source.as_uri(), str(tmp_path / "other"), "00", progress=False)
    assert not (tmp_path / "other").exists()


def test_a_function_of_a_repository_imports_its_modules(tmp_path):
    (tmp_path / "late_module.py").write_text("VALUE = 3\n")
    (tmp_path / "hubconf.py").write_text("def value():\n    import late_module\n    return late_module.VALUE\n")
    assert flow.hub.load(str(tmp_path), "value", source="local") == 3
    assert str(tmp_path) not in sys.path


def test_each_branch_of_a_repository_has_a_folder(tmp_path, monkeypatch):
    def opened(url):
        answer = io.BytesIO()
        with zipfile.ZipFile(answer, "w") as archive:
            archive.writestr("top/hubconf.py", f"def address(): return {url!r}\n")
        return io.BytesIO(answer.getvalue())

    monkeypatch.setattr("urllib.request.urlopen", opened)
    monkeypatch.setenv("ONEFLOW_HOME", str(tmp_path))
    for repository, end in (("a/b_c", "a/b_c/zipball/main"), ("a/b:c_main", "a/b/zipball/c_main")):
        assert flow.hub.load(repository, "address") == f"https://github.com/{end}"


def test_a_state_with_another_hash_is_refused(tmp_path):
    flow.save({"w": flow.tensor([1.0])}, str(tmp_path / "state.flow"))
    digits = hashlib.sha256((tmp_path / "state.flow").read_bytes()).hexdigest()[:8]
    options: dict[str, Any] = {"model_dir": str(tmp_path / "hub"), "check_hash": True, "progress": False}
    right, wrong = tmp_path / f"state-{digits}.flow", tmp_path / "hub" / "state-00.flow"
    shutil.copy(tmp_path / "state.flow", right)
    for _ in range(2):
        assert flow.hub.load_state_dict_from_url(right.as_uri(), **options)["w"].tolist() == [1]
    shutil.copy(right, wrong)
    with pytest.raises(RuntimeError, match="whose SHA-256 begins with '00'"):
        flow.hub.load_state_dict_from_url(wrong.as_uri(), **options)
    with pytest.raises(ValueError, match="digits of the SHA-256"):
        flow.hub.load_state_dict_from_url((tmp_path / "state.flow").as_uri(), **options)


def test_the_global_mode():
    placement = flow.placement("cpu", [0])
    with flow.utils.global_view.global_mode(True, placement, flow.sbp.broadcast):
        mode = flow.utils.global_view.current_global_mode()
        assert (mode.is_enabled, mode.placement, mode.sbp) == (True, placement, (flow.sbp.broadcast,))
        made = flow.ones(2)
        assert made.is_global
    assert not flow.utils.global_view.current_global_mode().is_enabled and not flow.ones(2).is_global
    with flow.utils.global_view.global_mode(True, placement, [flow.sbp.broadcast]):
        assert flow.utils.global_view.current_global_mode().sbp == (flow.sbp.broadcast,)
        assert flow.compile(lambda x: x * 2)(flow.ones(2)).to_local().tolist() == [2, 2]
    state = {"a": flow.ones(2, 3), "b": flow.ones(3)}
    moved = flow.utils.global_view.to_global(state, placement, flow.sbp.broadcast)
    cut = flow.utils.global_view.to_global(
        state, placement, sbp=lambda whole, x: flow.sbp.split(1) if x is whole["a"] else flow.sbp.broadcast
    )
    assert [moved[k].sbp[0] for k in "ab"] == [flow.sbp.broadcast] * 2
    assert [cut[k].sbp[0] for k in "ab"] == [flow.sbp.split(1), flow.sbp.broadcast]
    copy = moved["a"].to_global(copy=True, check_meta=False)
    with flow.no_grad():
        copy.zero_()
    assert moved["a"].to_local(copy=True).sum().item() == 6 and moved["a"].to_global() is moved["a"]
    local = flow.utils.global_view.to_local({"a": made, "b": 3})
    assert local["a"].tolist() == [1, 1] and not local["a"].is_global and local["b"] == 3
    assert flow.utils.global_view.to_local(local)["a"] is local["a"]


def test_the_layout_of_each_tensor_of_a_structure():
    whole = {"w": flow.ones(4, 2), "b": flow.ones(3), "n": 1}
    split, two = flow.sbp.split(0), flow.placement("cpu", [0, 1])
    placed = flow.utils.global_view.to_global(
        whole, two, lambda structure, x: split if x is structure["w"] else flow.sbp.broadcast
    )
    assert (placed["w"].sbp, placed["b"].sbp, placed["n"]) == ((split,), (flow.sbp.broadcast,), 1)


def test_a_downloaded_state_is_moved(tmp_path):
    flow.save({"w": flow.tensor([1.0, 2.0]), "steps": 3}, str(tmp_path / "state.flow"))
    for device in (None, "cpu"):
        options: dict[str, Any] = {"model_dir": str(tmp_path / "hub"), "map_location": device, "progress": False}
        (tmp_path / "hub").mkdir(exist_ok=True)
        state = flow.hub.load_state_dict_from_url((tmp_path / "state.flow").as_uri(), **options)
        assert state["w"].tolist() == [1, 2] and state["steps"] == 3


def test_settings_under_the_names_of_pytorch():
    cudnn, matmul = flow.backends.cudnn, flow.backends.cuda.matmul
    before = cudnn.deterministic, cudnn.benchmark, matmul.allow_tf32
    try:
        cudnn.deterministic, cudnn.benchmark, matmul.allow_tf32 = True, False, True
        options = COMPILE_OPTIONS[DETERMINISTIC], COMPILE_OPTIONS[AUTOTUNE], COMPILE_OPTIONS[PRECISION]
        assert options == ("true", "false", "tf32")
        flow.cuda.set_matmul_precision("ieee")
        assert cudnn.deterministic and not cudnn.benchmark and not matmul.allow_tf32
    finally:
        cudnn.deterministic, cudnn.benchmark, matmul.allow_tf32 = before
    assert not flow.backends.mps.is_available()


@pytest.mark.parametrize(
    "name, members",
    [
        ("oneflow.backends.cudnn", "deterministic"),
        ("oneflow.nn.common_types", "_size_2_t"),
        ("oneflow.nn.init", "xavier_uniform_"),
        ("oneflow.nn.modules", "Linear"),
        ("oneflow.nn.parameter", "Parameter"),
        ("oneflow.nn.utils.prune", "remove _compute_nparams_toprune"),
        ("oneflow.optim.lr_scheduler", "StepLR"),
        ("oneflow.optim.optimizer", "Optimizer"),
        ("oneflow.utils.checkpoint", "checkpoint"),
    ],
)
def test_modules_that_programs_import(name, members):
    module = importlib.import_module(name)
    assert all(hasattr(module, member) for member in members.split())


def test_modules_are_attributes():
    names = (flow.nn.parameter.Parameter, flow.optim.optimizer.Optimizer, flow.utils.checkpoint.checkpoint)
    assert names == (flow.nn.Parameter, flow.optim.Optimizer, flow.checkpoint)


def test_marks_of_pytorchs_script_compiler_change_nothing():
    @flow.jit.script
    def twice(x):
        return x if flow.jit.is_scripting() else x * 2

    @flow.jit.ignore
    @flow.jit.unused
    def other(x):
        return x

    assert twice(flow.ones(1)).item() == 2 and flow.jit.ignore(drop=True)(other)(3) == 3
    with flow.asyncs.thread(flow.asyncs.Thread()):
        assert twice(flow.ones(1)).item() == 2


def test_settings_of_collectives_are_taken():
    nccl = importlib.import_module("oneflow.boxing.nccl")
    assert nccl.enable_use_compute_stream(True) is None and flow.boxing.nccl.set_fusion_max_ops_num(4) is None


def test_sizes_and_the_numbers_before_them_are_given_by_name():
    assert flow.normal(mean=3.0, std=0.0, size=(2, 2)).tolist() == [[3, 3], [3, 3]]
    assert flow.normal(3.0, std=0.0, size=(1,)).tolist() == [3]


def test_functions_under_the_internal_name():
    x = flow.tensor([-1.0, 2.0])
    assert (
        flow._C.relu(x).tolist() == flow._C.scalar_mul(x, float_operand=1.0, has_float_operand=True).relu().tolist()
    )
    a, b = flow.randn(2, 3), flow.randn(4, 3)
    np.testing.assert_allclose(
        flow._C.matmul(a, b, transpose_b=True, alpha=2.0).numpy(), 2 * a.numpy() @ b.numpy().T, rtol=1e-5
    )
    scores, labels = flow.randn(2, 3), flow.tensor([2, 0])
    wanted = -flow.log_softmax(scores, 1).numpy()[[0, 1], [2, 0]]
    np.testing.assert_allclose(flow._C.sparse_softmax_cross_entropy(scores, labels).numpy(), wanted, rtol=1e-5)
    options = {"p": 0.0, "diagonal": 0, "tril_scale_value": 2.0}
    y, softmax = flow._C.fused_scale_tril_softmax_mask_scale(flow.zeros(2, 2), **options)
    assert y.tolist() == softmax.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    with pytest.raises(AttributeError, match=r"flow\._C has no function 'reluu'"):
        flow._C.reluu(x)
