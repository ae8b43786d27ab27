"""Pickles of OneFlow's `save`: the contents of a pickle are loaded, and no code in a pickle runs."""

import copyreg
import io
import pickle
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from call_counts import recorded

import oneflow as flow
from oneflow import nn
from oneflow.frontend.importers.saved.pickles import read_pickle


class Stand:
    """An object of a class given by name, with the state that a pickle stores for the object."""

    def __init__(self, name, state=None, arguments=()):
        self.name, self.state, self.arguments = name, state, arguments


class Named:
    """A class or function of a name."""

    def __init__(self, name):
        self.name = name


#: The pickler that is written in Python.
BASE: Any = pickle._Pickler


class Pickler(BASE):
    """Writes the requested names without importing the named objects."""

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Named):
            module, _, name = obj.name.rpartition(".")
            super().save(module)
            super().save(name)
            self.write(pickle.STACK_GLOBAL)
        elif isinstance(obj, Stand) and id(obj) not in self.memo:
            self.save(Named(obj.name))
            super().save(obj.arguments)
            self.write(pickle.NEWOBJ if obj.name.startswith("oneflow.") else pickle.REDUCE)
            self.memoize(obj)
            if obj.state is not None:
                super().save(obj.state)
                self.write(pickle.BUILD)
        else:
            super().save(obj, save_persistent_id)


def dumped(value, **more):
    file = io.BytesIO()
    Pickler(file, 4).dump({"protocol_version": 1, "__oneflow__": None, "data": value, **more})
    return file.getvalue()


def tensor(array, code, name="oneflow.Tensor"):
    kind = Stand("oneflow._oneflow_internal.dtype", code)
    return Stand(name, {"data": array, "dtype": kind, "device": "cpu"})


def conv(**changed):
    """A layer as OneFlow stores layers: attributes and parameters."""
    parameters = OrderedDict(
        weight=tensor(np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2), 2, "oneflow.nn.Parameter"), bias=None
    )
    state = {
        "training": False, "_parameters": parameters, "_buffers": OrderedDict(), "_modules": OrderedDict(),
        "_non_persistent_buffers_set": set(), "_is_full_backward_hook": None, "padding_mode": "zeros",
        "kernel_size": (2, 2), "stride": (1, 1), "dilation": (1, 1), "padding": (1, 0), "groups": 1,
        "channel_pos": "channels_first", "in_channels": 1, "out_channels": 3, "out_channel_groups": 3,
    }  # fmt: skip
    return Stand("oneflow.nn.modules.conv.Conv2d", state | changed)


def test_structures_of_tensors_and_values(tmp_path):
    state = OrderedDict(w=tensor(np.array([[1.5, -2]], ">f4"), 2), h=tensor(np.array([1, 2], np.float32), 9))
    both = [tensor(np.asfortranarray(np.arange(6).reshape(2, 3)), 6)]
    value = {
        "model": state,
        "step": 3,
        "rate": 0.5,
        1: [both, both],
        "tags": ("a", None, True, {"x"}, b"y", np.float64(2)),
    }
    (tmp_path / "state").write_bytes(dumped(value))
    loaded = flow.load(tmp_path / "state")
    assert list(loaded) == list(value) and type(loaded["model"]) is OrderedDict
    assert loaded["model"]["w"].dtype == flow.float32 and loaded["model"]["w"].tolist() == [[1.5, -2]]
    assert loaded["model"]["h"].dtype == flow.float16 and loaded["model"]["h"].tolist() == [1, 2]
    assert loaded[1][0][0].tolist() == [[0, 1, 2], [3, 4, 5]] and loaded[1][0] is loaded[1][1]
    assert loaded["tags"] == ("a", None, True, {"x"}, b"y", 2.0)


@pytest.mark.parametrize("begin", [b"\x80\x02", b"PK"])
def test_headers_whose_length_has_the_bytes_of_another_format(begin, tmp_path):
    """The leading header length of a safetensors file may equal the magic bytes of a pickle or an archive."""
    header = b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    length = int.from_bytes(begin, "little")
    (tmp_path / "x").write_bytes(length.to_bytes(8, "little") + header.ljust(length) + np.float32(3).tobytes())
    assert flow.load(tmp_path / "x")["x"].tolist() == [3]


def test_tensors_are_loaded_to_a_device(tmp_path):
    (tmp_path / "state").write_bytes(dumped({"w": tensor(np.ones(2, np.float32), 2), "step": 3}))
    locations: list[Any] = []
    moved = flow.load(
        tmp_path / "state", map_location=recorded(lambda x, location: x * 2, locations, lambda x, location: location)
    )
    assert moved["w"].tolist() == [2, 2] and moved["step"] == 3 and locations == ["cpu"]
    assert flow.load(tmp_path / "state", map_location="cpu")["w"].device.type == "cpu"
    (tmp_path / "layer").write_bytes(dumped(conv()))
    assert isinstance(flow.load(tmp_path / "layer", map_location=flow.device("cpu")), nn.Conv2d)


def test_files_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    state = OrderedDict(
        w=torch.arange(6.0).reshape(2, 3).T, h=torch.tensor(2.5, dtype=torch.bfloat16), steps=[1, "a"]
    )
    torch.save(state, tmp_path / "state.pt")
    loaded = flow.load(tmp_path / "state.pt")
    assert loaded["w"].tolist() == [[0, 3], [1, 4], [2, 5]] and loaded["steps"] == [1, "a"]
    assert loaded["h"].dtype == flow.bfloat16 and loaded["h"].item() == 2.5
    with pytest.raises(ValueError, match=r"of torch\.save; pass support_pytorch_format=True"):
        flow.load(tmp_path / "state.pt", support_pytorch_format=False)
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(flow.OneFlowError, match=r"expected a file of torch\.save, got Weights only load failed"):
        flow.load(tmp_path / "module.pt")


def test_tensors_in_folders_and_snapshots(tmp_path):
    for name in ("tensor_3", "tensor_4"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta").write_text("shape {\n  dim: 2\n}\ndata_type: kInt32\n")
        (tmp_path / name / "out").write_bytes(struct.pack("<2i", 5, -6))
    with pytest.raises(IsADirectoryError, match=r"expected .* to be a safetensors file, got a folder"):
        flow.load(tmp_path)
    (tmp_path / "snapshot_done").touch()
    loaded = flow.load(tmp_path)
    assert {k: v.tolist() for k, v in loaded.items()} == {"tensor_3": [5, -6], "tensor_4": [5, -6]}
    value = [Stand("oneflow.nn.Parameter", {"path": "tensor_3"}), Stand("oneflow.Tensor", {"path": "../tensor_4"})]
    (tmp_path / "pickled_data").write_bytes(dumped(value[:1]))
    (parameter,) = flow.load(tmp_path)
    assert isinstance(parameter, nn.Parameter) and parameter.tolist() == [5, -6]
    (tmp_path / "pickled_data").write_bytes(dumped(value))
    with pytest.raises(flow.OneFlowError, match=r"expected names of what is in the folder, got '\.\./tensor_4'"):
        flow.load(tmp_path)


def test_layers_are_made():
    norm_tables = {
        "_parameters": {n: tensor(np.full(3, i, np.float32), 2) for i, n in enumerate(("weight", "bias"))},
        "_buffers": {n: tensor(np.full(3, 0.5, np.float32), 2) for n in ("running_mean", "running_var")}
        | {"num_batches_tracked": tensor(np.array(7), 6)},
    }
    norm = Stand(
        "oneflow.nn.modules.batchnorm.BatchNorm2d",
        norm_tables | {"num_features": 3, "eps": 0.1, "momentum": 0.2, "affine": True, "track_running_stats": True},
    )
    leaky = Stand("oneflow.nn.modules.activation.LeakyReLU", {"negative_slope": 0.3, "inplace": True})
    modules = OrderedDict([("0", conv()), ("1", norm), ("act", leaky)])
    net = read_pickle(
        dumped(Stand("oneflow.nn.modules.container.Sequential", {"_modules": modules, "training": False}))
    )
    wanted = nn.Sequential(
        nn.Conv2d(1, 3, 2, padding=(1, 0), bias=False), nn.BatchNorm2d(3, eps=0.1), nn.LeakyReLU(0.3)
    ).eval()
    wanted.load_state_dict({name.replace("act", "2"): t for name, t in net.state_dict().items()})
    assert [type(m) for m in net.modules()] == [type(m) for m in wanted.modules()] and not net.training
    x = flow.tensor(np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32))
    assert np.array_equal(net(x).numpy(), wanted(x).numpy())


def cyclic():
    value: list[Any] = []
    value.append(value)
    return value


def reduced(name, *arguments):
    return dumped(Stand(name, None, arguments))


ARRAY = Stand("numpy._core.multiarray._reconstruct", None, (Named("numpy.ndarray"), (0,), b"b"))


def array(kind, shape, data):
    made = Stand(
        ARRAY.name,
        (1, shape, Stand("numpy.dtype", (3, "<", None, None, None, -1, -1, 0), (kind, False, True)), False, data),
        ARRAY.arguments,
    )
    return dumped({"x": made, "t": tensor(made, 2)})


#: The pickle of a dict up to its data.
BEGIN = b"\x80\x04}(\x8c\x10protocol_versionK\x01\x8c\x04data"
#: Pickles that are refused, and the messages.
HOSTILE = {
    "command": (reduced("os.system", "touch /tmp/ran"), r"got os\.system, which is not loaded"),
    "posix": (reduced("posix.system", "touch /tmp/ran"), r"got posix\.system"),
    "eval": (reduced("builtins.eval", "1"), r"got builtins\.eval"),
    "getattr": (reduced("builtins.getattr", 1, "x"), r"got builtins\.getattr"),
    "import": (reduced("importlib.import_module", "os"), r"got importlib\.import_module"),
    "path in a module": (reduced("oneflow.nn.modules.conv.Conv2d.__init__.__globals__"), "which is not loaded"),
    "other of OneFlow": (reduced("oneflow.hub.load", "x", "y"), r"got oneflow\.hub\.load"),
    "class of a user": (dumped(Stand("__main__.Net", {})), r"got __main__\.Net.*save a module's state_dict"),
    "not saved by OneFlow": (pickle.dumps([1]), "expected a pickle of OneFlow's save of version 1, got another"),
    "version": (dumped(1, protocol_version=2), "of version 1"),
    "truncated": (dumped([1, 2, 3])[:-4], "got a malformed one"),
    "memo": (b"\x80\x04]r\xff\xff\xff\x7f.", "numbers its values in order, got the number 2147483647"),
    "long bytes": (b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".", "got a malformed one"),
    "long frame": (b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b".", "got a malformed one"),
    "persistent": (b"\x80\x04K\x01Q.", "got a malformed one"),
    "extension": (b"\x80\x04\x82\x01.", "got a malformed one"),
    "cyclic": (dumped(cyclic()), "values that do not contain themselves"),
    "deep": (BEGIN + b"]" * 10**5 + b"a" * (10**5 - 1) + b"u.", "too deep"),
    "objects": (array("O8", (1,), b"\0" * 8), "expected numbers as the elements of an array"),
    "sizes": (array("f4", (10**12,), b"\0" * 8), r"expected \[1000000000000\] elements of float32 in"),
    "negative sizes": (array("f4", (-1, -2), b"\0" * 8), "elements of float32 in an array"),
    "type": (dumped(tensor(np.ones(1), 8)), "expected an element type of OneFlow, got the number 8"),
    "no elements": (dumped(Stand("oneflow.Tensor", {"path": "x"})), "expected the elements of tensors in the file"),
    "no state": (dumped(Stand("oneflow.Tensor")), "expected a tensor or a layer with its state"),
    "elements": (dumped(tensor([1], 2)), "expected an array as the elements of a tensor, got list"),
    "function as value": (dumped([Named("oneflow.Tensor")]), "expected tensors, layers and plain values, got"),
    "huge layer": (
        dumped(conv(out_channels=10**12)), r"Conv2d: expected sizes of its tensors, got \[1000000000000, 1, 2, 2\]",
    ),
    "many layers": (
        dumped(Stand("oneflow.nn.modules.rnn.RNN", {"input_size": 1, "hidden_size": 1, "num_layers": 10**9})),
        "cannot make the layer RNN: expected sizes of its tensors",
    ),
    "other shape": (
        dumped(conv(out_channels=1)), r"expected Conv2d\.weight of shape .*1, 1, 2, 2.*, got .*3, 1, 2, 2",
    ),
    "layout": (
        dumped(conv(channel_pos="channels_last")), "Conv2d with channel_pos='channels_last'; save its state_dict",
    ),
    "unknown attribute": (dumped(conv(gain=2)), "Conv2d with gain=2"),
}  # fmt: skip


@pytest.mark.parametrize("data, message", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused(data, message, tmp_path):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(flow.OneFlowError, match=message):
        flow.load(tmp_path / "file")


def test_pickles_register_no_extension():
    assert not copyreg._extension_registry  # type: ignore[attr-defined]
