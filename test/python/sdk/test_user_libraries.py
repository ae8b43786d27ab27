"""Libraries that cannot be loaded or are invalid: errors state the reason, and no registration remains."""

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, OperatorError, Registry
from oneflow.dialect.signature import SignatureError
from oneflow.frontend import sysconfig
from oneflow.runtime.user_ops import framework
from oneflow.runtime.user_ops.library import LibraryError, load_library
from oneflow.runtime.user_ops.operations import call_by_name, find_operator
from oneflow.tools import oneflow_opt
from oneflow.tools.functional_operators import HEADER

X = np.ones((2, 3), np.float32)
HEAD = '#include "oneflow/core/framework/framework.h"\nnamespace oneflow { namespace {\n'
TAIL = "\n}}\n"
SAME = ".SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)"


BAD_LIBRARIES = {
    "missing_symbol": (
        "} int missing_function(); namespace {\nconst int value = missing_function();",
        "undefined symbol: .*missing_function",
    ),
    "twice": (
        f'REGISTER_USER_OP("t_twice").Input("in").Output("out"){SAME};\n'
        f'REGISTER_USER_OP("t_twice").Input("in").Output("out"){SAME};',
        r"t_twice is registered twice: at .*twice.cpp:3 and at .*twice.cpp:4; rename one",
    ),
    "builtin": (
        f'REGISTER_USER_OP("relu").Input("in").Output("out"){SAME};',
        r"operator relu is defined twice: at .*unary.py:\d+ and at .*builtin.cpp:3",
    ),
    "no_infer": ('REGISTER_USER_OP("t_no_infer").Input("in").Output("out");', "t_no_infer has no infer function"),
    "names": (
        f'REGISTER_USER_OP("t_names").Input("in").Output("in"){SAME};',
        "the operator t_names: the name in is used twice",
    ),
    "default": (
        'REGISTER_USER_OP("t_default").Input("in").Output("out").Attr("a", UserOpAttrType::kAtString, 3)'
        + SAME
        + ";",
        "the attribute a is of the kind string, its default of the kind int32",
    ),
    "lone_kernel": (
        'class K final : public user_op::OpKernel {};\nREGISTER_USER_KERNEL("t_nowhere").SetCreateFn<K>();',
        r"lone_kernel.cpp:4: a kernel of the operator t_nowhere, which is not registered; register it with",
    ),
    "lone_gradient": (
        'REGISTER_USER_OP_GRAD("t_nowhere").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext*) {});',
        "a gradient of the operator t_nowhere, which is not registered",
    ),
    "no_class": (
        f'REGISTER_USER_OP("t_no_class").Input("in").Output("out"){SAME};\nREGISTER_USER_KERNEL("t_no_class");',
        r"the kernel of t_no_class has no class; call SetCreateFn",
    ),
    "crashes": ("const int value = *static_cast<volatile int *>(nullptr);", "crashed: Segmentation fault"),
    "functor": (
        '}}\n#include "oneflow/core/functional/function_library.h"\nnamespace oneflow { namespace {\n'
        'struct F { F() { throw std::runtime_error("no functor today"); }\n'
        "  Maybe<one::Tensor> operator()(const std::shared_ptr<one::Tensor> &x) const { return x; } };\n"
        'ONEFLOW_FUNCTION_LIBRARY(m) { m.add_functor<F>("Made"); }',
        r"functor.cpp:\d+: the functor of Made cannot be made: no functor today",
    ),
    "gradient_twice": (
        f'REGISTER_USER_OP("t_g").Input("in").Output("out"){SAME};\n'
        'REGISTER_USER_OP_GRAD("t_g").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext*) {});\n'
        'REGISTER_USER_OP_GRAD("t_g").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext*) {});',
        r"the gradient of t_g is registered twice: at .*:4 and at .*:5; remove one",
    ),
    "name": (
        f'REGISTER_USER_OP("t-dash").Input("in").Output("out"){SAME};',
        "expected the name of an operator of lower-case letters, digits and single underscores, got 't-dash'",
    ),
    "operand": (
        f'REGISTER_USER_OP("t_operand").Input("in put").Output("out"){SAME};',
        "operator t_operand at .*:3: expected names of the letters a to z, digits and underscores .*, got 'in put'",
    ),
    "throws": ('const int value = [] { throw std::runtime_error("thrown early"); return 1; }();', "thrown early"),
    "exits": (
        "const int value = [] { std::exit(0); return 1; }();",
        "ended the process, with the status 0; expected",
    ),
    "exits_with_3": ("const int value = [] { std::exit(3); return 1; }();", "ended the process, with the status 3"),
    "large": (
        'REGISTER_USER_OP("t_bad").Input("in").Output("out").Attr("a", UserOpAttrType::kAtInt32, int64_t(1) << 40)'
        f"{SAME};",
        "operator t_bad at .*:3: the attribute a: expected an integer of 32 bits, got 1099511627776",
    ),
    "no_type": (
        f'REGISTER_USER_OP("t_bad").Input("in").Output("out").Attr<DataType>("a", kInvalidDataType){SAME};',
        "the attribute a: expected a data type such as kFloat, got the code 0",
    ),
    "no_kind": (
        'REGISTER_USER_OP("t_bad").Input("in").Output("out").Attr("a", static_cast<UserOpAttrType>(55))' + SAME + ";",
        "the attribute a: expected a kind of attribute such as kAtInt32, got the code 55",
    ),
    "letters": (
        f'REGISTER_USER_OP("t_bad").Input("\u00e9").Output("out"){SAME};',
        "expected names of the letters a to z, digits and underscores for .*, got '\u00e9'",
    ),
    "capital": (
        f'REGISTER_USER_OP("t_bad").Input("X").Output("out"){SAME};',
        "t_bad at .*:3: expected names without capitals for its inputs and outputs, got 'X'; rename it to 'x'",
    ),
    "negative_count": (
        f'REGISTER_USER_OP("t_bad").Input("in", -2).Output("out"){SAME};',
        "t_bad: expected a positive number of tensors for in, got -2",
    ),
    "count_of_none": (
        f'REGISTER_USER_OP("t_bad").Input("in").Output("out", 0){SAME};',
        "t_bad: expected a positive number of tensors for out, got 0",
    ),
    "negative_minimum": (
        f'REGISTER_USER_OP("t_bad").InputWithMinimum("in", -1).Output("out"){SAME};',
        "t_bad: expected a positive number of tensors for in, got -1",
    ),
    "no_output": (f'REGISTER_USER_OP("t_bad").Input("in"){SAME};', 't_bad has no output; call Output."out".'),
    "count_taken": (
        'REGISTER_USER_OP("t_bad").Input("in").Output("out").OptionalOutput("extra").Attr<int64_t>("extra_count")'
        f"{SAME};",
        "the attribute extra_count says how many tensors a result has, expected no other part of that name",
    ),
    "no_grad": (
        f'REGISTER_USER_OP("t_bad").Input("in").Output("out").NoGrad(){SAME};\n'
        'REGISTER_USER_OP_GRAD("t_bad").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext*) {});',
        "no_grad.cpp:4: a gradient of the operator t_bad, which is registered at .*:3 as NoGrad; remove one",
    ),
}


@pytest.mark.parametrize("name", BAD_LIBRARIES)
def test_bad_libraries(build, name):
    text, message = BAD_LIBRARIES[name]
    path = build(name, HEAD + text + TAIL)
    registry = Registry(dict(REGISTRY.operators))
    for _ in range(2):
        with pytest.raises(LibraryError, match=message) as error:
            load_library(path, registry)
        assert str(error.value).startswith(f"cannot load {path}: ")
    assert registry.operators == REGISTRY.operators


def test_names_with_capitals(load, monkeypatch, capsys):
    """MLIR has no names with capitals: the operator is found by name, the operation has another name."""
    text = f'REGISTER_USER_OP("MyTOp").Input("self").Output("loc").Attr<int32_t>("In", 3){SAME};\n'
    text += """struct Copy final : user_op::OpKernel {
      void Compute(user_op::KernelComputeContext* ctx) const override {
        const user_op::Tensor* x = ctx->Tensor4ArgNameAndIndex("self", 0);
        std::copy_n(x->dptr<float>(), 6, ctx->Tensor4ArgNameAndIndex("loc", 0)->mut_dptr<float>());
      }
    };
    REGISTER_USER_KERNEL("MyTOp").SetCreateFn<Copy>();"""
    registry = load("capitals", HEAD + text + TAIL)
    record = find_operator(registry, "MyTOp")[0]
    assert record.name == "user_my_t_op" and "MyTOp" in record.doc
    create_context(registry)
    ops = NumpyBuilder(registry)
    found = call_by_name(ops, "MyTOp", {"self": (ops.wrap(X),)}, {"In": 4}, {"loc": 1})
    np.testing.assert_array_equal(found["loc"].handle, X)
    with pytest.raises(OperatorError, match=r"unknown operator oneflow\.MyTop"):
        find_operator(registry, "MyTop")
    monkeypatch.setattr(oneflow_opt, "REGISTRY", registry)
    for name in ("MyTOp", "oneflow.MyTOp", "user_my_t_op"):
        assert oneflow_opt.main([f"--show-op={name}"]) == 0
        assert capsys.readouterr().out.startswith("oneflow.user_my_t_op(")


def test_an_operator_in_python_with_capitals():
    with pytest.raises(SignatureError, match="lower-case letters, digits and single underscores, got 'MyOp'"):
        flow.operator("MyOp(x) -> y")(type("My", (), {"types": "x", "kernel": flow.numpy_kernel(lambda x: x)}))


def test_kernel_without_compute(load):
    text = f'REGISTER_USER_OP("t_idle").Input("in").Output("out"){SAME};\n'
    text += 'class K final : public user_op::OpKernel {};\nREGISTER_USER_KERNEL("t_idle").SetCreateFn<K>();'
    with pytest.raises(OperatorError, match="t_idle: the kernel overrides no form of Compute"):
        NumpyBuilder(load("idle", HEAD + text + TAIL)).t_idle(X)


def test_operator_without_kernel_or_gradient(load):
    text = f'REGISTER_USER_OP("t_bare").Input("in").Output("out"){SAME};'
    registry = load("bare", HEAD + text + TAIL)
    with pytest.raises(OperatorError, match=r"t_bare: no kernel matches on cpu for .*\n  there is none"):
        NumpyBuilder(registry).t_bare(X)
    assert "REGISTER_USER_OP_GRAD" in registry["t_bare"].grad.reason


def test_two_libraries_with_one_operator(build, load):
    text = HEAD + f'REGISTER_USER_OP("t_shared").Input("in").Output("out"){SAME};' + TAIL
    registry = load("first", text)
    with pytest.raises(LibraryError, match=r"t_shared is registered twice: at .*first.cpp:3 and at .*second.cpp:3"):
        load_library(build("second", text), registry)


def test_loading_twice_does_nothing(build, tmp_path):
    path = build("again", HEAD + f'REGISTER_USER_OP("t_again").Input("in").Output("out"){SAME};' + TAIL)
    registry = Registry(dict(REGISTRY.operators))
    link = tmp_path / "link.so"
    link.symlink_to(path)
    assert [r.name for r in load_library(path, registry)] == ["t_again"]
    assert load_library(path, registry) == load_library(link, registry) == []
    path.touch()
    with pytest.raises(LibraryError, match="the file has changed since it was loaded; start a new process"):
        load_library(path, registry)


def test_a_kernel_may_be_in_another_library(load, build):
    registry = load("owner", HEAD + f'REGISTER_USER_OP("t_owned").Input("in").Output("out"){SAME};' + TAIL)
    text = """class Fill final : public user_op::OpKernel {
      void Compute(user_op::KernelComputeContext* ctx) const override {
        user_op::Tensor* out = ctx->Tensor4ArgNameAndIndex("out", 0);
        std::fill_n(out->mut_dptr<float>(), out->shape().elem_cnt(), 5.0f);
      }
    };
    REGISTER_USER_KERNEL("t_owned").SetCreateFn<Fill>();"""
    assert load_library(build("kernels", HEAD + text + TAIL), registry) == []
    np.testing.assert_array_equal(NumpyBuilder(registry).t_owned(X).handle, np.full((2, 3), 5, np.float32))


MARK = f"oneflow-sdk-version={framework.version()};".encode()
#: The hash of the headers of the version.
HEADERS = "07062d5869b9162d"


def test_changed_headers_are_another_version():
    """A library shares class layouts with the framework: a library of other headers must be refused."""
    root = Path(flow.sysconfig.get_include()).resolve()
    text = "".join(path.read_text() for path in sorted(root.rglob("*.h")) if path.name != HEADER.name)
    found = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found == HEADERS, f"raise ONEFLOW_SDK_VERSION, and write HEADERS = {found!r}"


def test_the_folders_that_flags_name():
    assert (Path(flow.sysconfig.get_include()) / "oneflow/core/framework/framework.h").is_file()
    assert f"-I{flow.sysconfig.get_include()}" in flow.sysconfig.get_compile_flags()
    assert (Path(flow.sysconfig.get_lib()) / framework.NAME).is_file()
    assert f"-L{flow.sysconfig.get_lib()}" in flow.sysconfig.get_link_flags()


def test_a_linker_that_collects_sections_keeps_the_version(build, tmp_path):
    source, library = tmp_path / "collected.cpp", tmp_path / "collected.so"
    source.write_text(HEAD + f'REGISTER_USER_OP("t_collected").Input("in").Output("out"){SAME};' + TAIL)
    flags = ["-fPIC", "-shared", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    flags += [*sysconfig.get_compile_flags(), *sysconfig.get_link_flags()]
    subprocess.run(["g++", str(source), "-o", str(library), *flags], check=True)
    assert MARK in library.read_bytes()


def test_another_version_of_the_sdk_is_refused(build, tmp_path):
    path = build("versioned", HEAD + f'REGISTER_USER_OP("t_version").Input("in").Output("out"){SAME};' + TAIL)
    other = tmp_path / "other.so"
    other.write_bytes(path.read_bytes().replace(MARK, b"oneflow-sdk-version=99;"))
    message = f"built with version 99 of the SDK, this is version {framework.version()}; compile it again"
    with pytest.raises(LibraryError, match=message):
        load_library(other)


@pytest.mark.parametrize(
    "content, message", [(None, "No such file"), (b"text", "expected a library built with the SDK")]
)
def test_files_that_are_no_libraries(tmp_path, content, message):
    path = tmp_path / "file.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LibraryError, match=message):
        flow.config.load_library(path)


def test_a_damaged_library(build, tmp_path):
    path = build("damaged", HEAD + f'REGISTER_USER_OP("t_damaged").Input("in").Output("out"){SAME};' + TAIL)
    other = tmp_path / "cut.so"
    data = path.read_bytes()
    other.write_bytes(data[: len(data) // 2] + MARK)
    with pytest.raises(LibraryError, match="cannot load"):
        load_library(other)
