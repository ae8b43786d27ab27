"""Checkpoints and tensor files: kept state, refused input, and atomic replacement of a file."""

import copy
import os
import pickle
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn


def parts(seed):
    flow.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer = flow.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True)
    schedule = flow.optim.lr_scheduler.WarmupLR(flow.optim.lr_scheduler.StepLR(optimizer, 3, 0.5), 0.5, 2)
    return {"model": model, "optimizer": optimizer, "schedule": schedule}


def advance(model, optimizer, schedule, count):
    for _ in range(count):
        optimizer.zero_grad()
        model(flow.randn(5, 3)).square().mean().backward()
        optimizer.step()
        schedule.step()


def flat(model, optimizer, schedule):
    states = [s for kept in optimizer.state_dict()["state"].values() for s in kept.values()]
    return [t.numpy() for t in (*model.state_dict().values(), *states)], schedule.state_dict()


def test_training_is_resumed(tmp_path):
    first = parts(1)
    advance(**first, count=4)
    flow.Checkpoint(tmp_path / "new" / "run.safetensors", **first).save(
        step=4, best=0.1, curve=[np.array([1, 2], np.float64)]
    )
    advance(**first, count=3)
    second = parts(2)
    values = flow.Checkpoint(tmp_path / "new" / "run.safetensors", **second).load()
    assert values is not None
    assert values["step"] == 4 and values["best"] == 0.1 and values["curve"][0].tolist() == [1, 2]
    advance(**second, count=3)
    for got, want in zip(flat(**second)[0], flat(**first)[0], strict=True):
        np.testing.assert_array_equal(got, want)
    assert flat(**second)[1] == flat(**first)[1]


def test_missing_files_are_errors(tmp_path):
    assert flow.Checkpoint(tmp_path / "run.safetensors", **parts(0)).load() is None


def test_invalid_checkpoints_are_refused(tmp_path):
    path, made = tmp_path / "run.safetensors", parts(0)
    with pytest.raises(TypeError, match="expected step to have state_dict and load_state_dict, got int"):
        flow.Checkpoint(path, step=3)
    flow.save(made["model"].state_dict(), path)
    with pytest.raises(ValueError, match=r"to be a checkpoint, which flow\.Checkpoint wrote"):
        flow.Checkpoint(path, **made).load()
    flow.Checkpoint(path, model=made["model"]).save()
    with pytest.raises(ValueError, match=r"of \['model', 'optimizer', 'schedule'\], .* has \['model'\]"):
        flow.Checkpoint(path, **made).load()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="to be a safetensors file"):
        flow.load(path)
    with pytest.raises(FileNotFoundError):
        flow.load(tmp_path / "missing")
    with pytest.raises(IsADirectoryError, match="to be a safetensors file, got a folder; name one in it"):
        flow.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    flow.save({"w": flow.ones(2)}, path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        flow.save({"w": flow.zeros(2)}, path)
    assert flow.load(path)["w"].tolist() == [1, 1] and [p.name for p in tmp_path.iterdir()] == [path.name]
    with pytest.raises(TypeError, match=r"expected tensors and plain values to save, got set at a\.b"):
        flow.save({"a": {"b": {1}}}, path)


KILLED = """
import os, signal, sys
import oneflow as flow

os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
flow.save({"x": flow.ones(100)}, sys.argv[1])
"""


def test_unfinished_files_of_killed_writers_are_removed(tmp_path, monkeypatch):
    path, unfinished = tmp_path / "run[1].safetensors", tmp_path / ".run.safetensors.0123abcd"
    unfinished.write_bytes(b"of another file")
    flow.save({"x": flow.zeros(3)}, path)
    assert subprocess.run([sys.executable, "-c", KILLED, path], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 3 and flow.load(path)["x"].tolist() == [0, 0, 0]
    found: list[Any] = []

    def replace(source, target, rename=os.replace):
        if not found:
            found.extend(sorted(p.name for p in tmp_path.iterdir()))
            flow.save({"x": flow.ones(2)}, path)  # while the first is written still
        rename(source, target)

    monkeypatch.setattr("os.replace", replace)
    flow.save({"x": flow.ones(3)}, path)
    assert len(found) == 3 and flow.load(path)["x"].tolist() == [1, 1, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == [unfinished.name, path.name]


def test_ranks_save_and_load_global_tensors(tmp_path):
    first, path = flow.placement("cpu", [0, 1]), tmp_path / "state"
    flow.save({"w": flow.ones(4, 2).to_global(first, flow.sbp.split(0))}, path, global_dst_rank=1)
    assert not path.exists(), "this process is rank 0"
    flow.save({"w": flow.ones(4, 2).to_global(first, flow.sbp.split(0))}, path, global_dst_rank=0)
    loaded = flow.load(path, global_src_rank=1)["w"]
    assert loaded.placement == flow.placement("cpu", [1]) and loaded.shape == (4, 2)


def test_structures_are_restored(tmp_path):
    plain: dict[Any, Any] = {"a": [1, (2.5, None)], "inf": float("inf"), "text": "é", "empty": [], "t": True}
    value = {**plain, 3: {"x": flow.ones(2, 1)}}
    flow.save(value, tmp_path / "file")
    found = flow.load(tmp_path / "file")
    assert found[3]["x"].tolist() == [[1], [1]] and found[3]["x"].shape == (2, 1)
    assert {k: v for k, v in found.items() if k != 3} == plain


@pytest.mark.parametrize("dtype", [flow.float32, flow.bfloat16, flow.int64, flow.bool], ids=str)
def test_tensors_pickle(dtype):
    x = flow.tensor([[1, 0], [2, 3]]).to(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == dtype and y.tolist() == x.tolist() and not y.requires_grad


def test_modules_pickle():
    net = flow.nn.Sequential(flow.nn.Linear(2, 3), flow.nn.BatchNorm1d(3))
    net[0].bias.requires_grad_(False)
    other = pickle.loads(pickle.dumps(net))
    x = flow.tensor([[1.0, 2.0], [3.0, -1.0]])
    np.testing.assert_array_equal(net(x).detach().numpy(), other(x).detach().numpy())
    other(x).square().sum().backward()
    assert isinstance(other[0].weight, flow.nn.Parameter) and other[0].weight.grad is not None
    assert net[0].weight.grad is None and other[0].bias.grad is None and not other[0].bias.requires_grad


def test_results_of_operators_do_not_pickle():
    with pytest.raises(TypeError, match=r"expected a leaf to pickle, .* pickle x\.detach\(\)"):
        pickle.dumps(flow.tensor([1.0], requires_grad=True) * 2)


def test_shallow_copies_are_the_same_values():
    x = flow.tensor([1.0, 2.0], requires_grad=True)
    y = copy.copy(x * 2)
    y.sum().backward()
    copy.copy(x.detach()).add_(1)
    assert x.grad.tolist() == [2, 2] and y.tolist() == [2, 4]
