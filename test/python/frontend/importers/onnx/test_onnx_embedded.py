"""Large constants in the file of a model, which are read from the file."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import oneflow as flow
from oneflow.frontend.importers.onnx.embedded import MIN_BYTES, referring
from oneflow.frontend.importers.onnx.reader import read_model

RNG = np.random.default_rng(0)
COUNT = MIN_BYTES // 4 + 1


def stored(folder, constants, change=lambda made: None):
    """A file with a model that returns its constants."""
    protos = [
        c if isinstance(c, TensorProto) else numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants)
    ]
    nodes = [helper.make_node("Identity", [c.name], [f"y{i}"]) for i, c in enumerate(protos)]
    outputs = [helper.make_tensor_value_info(f"y{i}", c.data_type, list(c.dims)) for i, c in enumerate(protos)]
    made = helper.make_model(helper.make_graph(nodes, "graph", [], outputs, protos))
    change(made)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def referred(path):
    """The constants of the protobuf that refer to the file."""
    proto = onnx.ModelProto.FromString(referring(memoryview(path.read_bytes()), path.name))
    return [c.name for c in proto.graph.initializer if c.data_location == TensorProto.EXTERNAL]


def test_constants_are_mapped_from_the_file_and_writable(tmp_path):
    arrays = [
        np.arange(3, dtype=np.float32),
        *(RNG.integers(0, 2, COUNT * n).astype(t) for n, t in ((1, "f4"), (4, "i1"), (1, "f8"), (1, "i8"), (4, "?"))),
        RNG.normal(size=(2, COUNT)).astype(ml_dtypes.bfloat16),
    ]
    path = stored(tmp_path, arrays)
    assert referred(path) == [f"c{i}" for i in range(1, len(arrays))]
    found = read_model(path).graph.constants
    for array, constant in zip(arrays, found.values(), strict=True):
        np.testing.assert_array_equal(constant, array, strict=True)
    assert all(c.flags.writeable and c.flags.aligned for c in list(found.values())[1:])
    path.write_bytes(b"")
    np.testing.assert_array_equal(found["c1"], arrays[1])


def test_a_link_to_a_model_in_another_folder_is_read(tmp_path):
    array = RNG.normal(size=COUNT).astype(np.float32)
    path = stored(tmp_path, [array])
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "linked.onnx"
    link.symlink_to(path)
    (found,) = flow.from_onnx(link).run({})
    np.testing.assert_array_equal(found, array)


def test_packed_elements_stay_in_the_protobuf(tmp_path):
    packed = helper.make_tensor("packed", TensorProto.INT4, [2 * MIN_BYTES], bytes(range(256)) * 16, raw=True)
    path = stored(tmp_path, [packed])
    assert not referred(path)
    assert read_model(path).graph.constants["packed"].shape == (2 * MIN_BYTES,)


@pytest.mark.parametrize("cut", [1, 2, 700, MIN_BYTES, MIN_BYTES + 60])
def test_truncated_files_are_refused(tmp_path, cut):
    path = stored(tmp_path, [np.zeros(COUNT, np.float32)])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(flow.OneFlowError, match=r"no protobuf|with a graph|bytes for"):
        flow.from_onnx(path)


def test_bytes_must_be_those_of_the_shape(tmp_path):
    path = stored(tmp_path, [np.zeros(COUNT, np.float32)], lambda made: made.graph.initializer[0].dims.append(2))
    with pytest.raises(
        flow.OneFlowError, match=f"expected {8 * COUNT} bytes for the constant 'c0', .* got {4 * COUNT}"
    ):
        flow.from_onnx(path)


def test_arrays_that_are_not_aligned_in_their_file_are_read(tmp_path):
    array = RNG.normal(size=5).astype(np.float64)
    (tmp_path / "arrays.bin").write_bytes(bytes(3) + array.tobytes())
    proto = TensorProto(name="w", data_type=TensorProto.DOUBLE, dims=[5], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "arrays.bin", "offset": "3", "length": "40"}.items():
        proto.external_data.add(key=key, value=value)
    found = read_model(stored(tmp_path, [proto])).graph.constants["w"]
    np.testing.assert_array_equal(found, array)
    assert found.flags.aligned
    proto.external_data[2].value = "32"
    with pytest.raises(flow.OneFlowError, match=r"expected 40 bytes for the constant 'w', .* got 32"):
        read_model(stored(tmp_path, [proto]))
