"""What goes wrong in libraries of operators is an error of the operator with a message, never a crash."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import oneflow as flow
from oneflow.dialect.numpy_builder import NumpyBuilder
from oneflow.dialect.oneflow import create_context
from oneflow.dialect.record import REGISTRY, Call, OperatorError, Registry, SignatureError, attribute_values
from oneflow.runtime.user_ops import rules
from oneflow.runtime.user_ops.library import LibraryError, load_library
from oneflow.runtime.user_ops.operations import call_by_name, find_operator
from oneflow.testing.checks import described, make_case
from oneflow.testing.sample import Sample, t
from oneflow.tools.functional_operators import PLACE

X = np.ones((2, 3), np.float32)
HEAD = '#include "oneflow/core/framework/framework.h"\nnamespace oneflow { namespace {\n'
TAIL = "\n}}\n"
SAME = ".SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)"


@pytest.fixture
def ops(naughty):
    return NumpyBuilder(naughty)


@pytest.fixture
def guarded():
    rules.guard_kernels(True)
    yield
    rules.guard_kernels(False)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("refused", "the check of attributes failed: .*naughty.cpp:.*refused.* is never allowed"),
        ("infer_throws", "the infer function failed: thrown by infer"),
        ("infer_throws_int", "an exception that is not a std::exception"),
        ("infer_check", r"naughty.cpp:\d+: Check failed: .*NumAxes\(\) == 9 \(2 vs 9\) axes"),
        ("infer_maybe", r"there is no number\n  in .*naughty.cpp:\d+: Number"),
        ("bad_name", "no input or output named y; it has many, pair, x"),
        ("bad_index", "the input or output x has 1 tensors, number 3 was asked for"),
        ("bad_axis", r"axis 5 of the shape \(2,3\)"),
        ("bad_attr", "the attribute mode of t_naughty is of the kind string, it was asked for as int32"),
        ("no_attr", "has no attribute named depth; it has mode"),
        ("no_shape", r"gave no shape for out\[0\]; assign \*ctx->Shape4ArgNameAndIndex"),
        ("bad_shape", r"gave out\[0\] the shape \(-3\)"),
        ("mutable", r"writes the input x\[0\] \(set_is_mutable\)"),
        ("kernel_throws", "thrown by the kernel"),
        ("wrong_type", r"the tensor out\[0\] has elements of float32, it was read as float64"),
        ("no_kernel", r"no kernel matches on cpu for (?s:.*)attribute mode != no_kernel \(it is no_kernel\)"),
    ],
)
def test_failures_are_errors(ops, mode, message):
    with pytest.raises(OperatorError, match=message) as error:
        ops.t_naughty(X, mode=mode)
    assert str(error.value).startswith("oneflow.t_naughty: ")


def test_no_kernel_lists_candidates(ops):
    with pytest.raises(OperatorError) as error:
        ops.t_naughty(X.astype(np.int8))
    text = str(error.value)
    assert "x[0]: int8(2,3)" in text
    assert text.count("naughty.cpp:") == 2
    assert "data type of x[0] == float32 (it is int8)" in text
    assert "device == cuda (it is cpu)" in text
    assert 'add one: REGISTER_USER_KERNEL("t_naughty")' in text


@pytest.mark.parametrize(
    "operands, message",
    [
        ((X, [X]), "expected none or 2 for pair, got 1"),
        ((X, [X] * 3), "expected none or 2 for pair, got 3"),
        ((X, None, [X]), "expected none or at least 2 for many, got 1"),
        ((), "x"),
        ((X, None, None, X), "at most 3 operands"),
    ],
)
def test_counts(ops, operands, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_naughty(*operands)


def test_counts_that_are_right(ops):
    for operands in ((X, [X, X]), (X, None, [X, X, X])):
        np.testing.assert_array_equal(ops.t_naughty(*operands).handle, X)


@pytest.mark.parametrize(
    "attrs, message",
    [({"mode": 3}, "attribute mode: expected a string, got 3"), ({"mood": "x"}, "unknown attribute 'mood'.*mode")],
)
def test_attributes(ops, attrs, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_naughty(X, **attrs)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("overrun", r"wrote out of bounds: 8 bytes after the end of out\[0\], which has 24 bytes"),
        ("underrun", r"wrote out of bounds: \d bytes before the begin of out\[0\]"),
        ("writes_input", r"wrote its input x\[0\]"),
    ],
)
def test_guards_find_bad_writes(ops, guarded, mode, message):
    with pytest.raises(OperatorError, match=message):
        ops.t_naughty(X, mode=mode)
    np.testing.assert_array_equal(ops.t_naughty(X).handle, X)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("sbp_axis", r"splits x\[0\] along axis 4, expected one in \[0, 2\)"),
        ("sbp_part", r"says nothing of out\[0\]"),
        ("sbp_maybe", "the SBP function failed: no signatures today"),
    ],
)
def test_sbp_failures(naughty, mode, message):
    call = described(make_case(Sample("t_naughty", [t(2, 3)], {"mode": mode}), flow.float32, naughty))
    with pytest.raises(OperatorError, match=message):
        naughty["t_naughty"].signatures(call)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("grad_maybe", r"the gradient function \(.*naughty.cpp:\d+\) failed: cannot differentiate"),
        ("grad_op", "gradient function: unknown operator oneflow.t_no_such_op"),
        ("grad_operand", "gradient function: oneflow.identity: no operand is called 'x', expected in"),
        ("grad_tensor", "uses the tensor 'nowhere/out_0', which nothing gives"),
        ("grad_undefined", "the operation dy is not defined; call DefineOp first"),
        ("grad_input", "no input named y; it has many, pair, x"),
    ],
)
def test_gradient_failures(naughty, mode, message):
    ops = NumpyBuilder(naughty)
    record, x = naughty["t_naughty"], ops.wrap(X)
    attrs = attribute_values(record, {"mode": mode})
    call = Call(record, {"x": x, "pair": (), "many": ()}, attrs, {"out": ops.t_naughty(x, mode=mode)})
    with pytest.raises(OperatorError, match=message):
        record.grad(ops, call, x)["x"]()


@pytest.fixture(scope="module")
def throwing(load):
    return load("throwing")


def result_of(registry, name, mode):
    ops, record = NumpyBuilder(registry), registry[name]
    x = ops.wrap(X.astype(np.float64))
    attrs = attribute_values(record, {"mode": mode})
    return ops, Call(record, {"x": x}, attrs, {"y": getattr(ops, name)(x, mode=mode)})


CALLBACKS = [
    "check", "infer", "data_type", "input_modify", "output_modify", "match", "tmp_size", "create", "state", "cache",
    "compute",
]  # fmt: skip


@pytest.mark.parametrize("mode", CALLBACKS)
def test_what_callbacks_throw_is_an_error_of_the_operator(throwing, mode):
    for _ in range(2):
        with pytest.raises(OperatorError, match=f"^oneflow.t_throwing: (?s:.*)thrown in {mode}$"):
            result_of(throwing, "t_throwing", mode)
    np.testing.assert_array_equal(result_of(throwing, "t_throwing", "")[1].y.handle, X + 1)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("null", "Check failed: .*is not null"),
        ("nothing", "an exception that is not a std::exception"),
        ("negative", r"\(-1 vs 0\) bytes of tmp_buffer, by SetInferTmpSizeFn \(.*throwing.cpp:\d+\)"),
    ],
)
def test_kernels_that_are_none(throwing, mode, message):
    with pytest.raises(OperatorError, match=f"t_throwing: .*{message}"):
        result_of(throwing, "t_throwing", mode)


@pytest.mark.parametrize("mode", ["gradient", "define", "bind"])
def test_what_gradient_functions_throw(throwing, mode):
    ops, call = result_of(throwing, "t_throwing", mode)
    with pytest.raises(OperatorError, match=rf"t_throwing: the gradient function .* failed: thrown in {mode}"):
        throwing["t_throwing"].grad(ops, call, call.y)


@pytest.mark.parametrize(
    "mode, message",
    [
        ("init", "thrown in init"),
        ("capture", "thrown in capture"),
        ("apply", "thrown in apply"),
        ("too_many", r"\(5 vs 1\) gradients, in the gradient function .*throwing.cpp"),
    ],
)
def test_what_gradient_classes_throw(throwing, mode, message):
    ops, call = result_of(throwing, "t_throwing_class", mode)
    with pytest.raises(OperatorError, match=f"t_throwing_class: .*{message}"):
        throwing["t_throwing_class"].grad(ops, call, call.y)


def test_what_the_sbp_function_throws(throwing):
    call = described(make_case(Sample("t_throwing", [t(2, 3)], {"mode": "sbp"}), flow.float64, throwing))
    with pytest.raises(OperatorError, match="t_throwing: the SBP function failed: thrown in sbp"):
        throwing["t_throwing"].signatures(call)


def test_threads(throwing, naughty):
    """Calls, failures and their texts belong to their threads."""

    def work(number):
        registry, name = (throwing, "t_throwing") if number % 2 else (naughty, "t_naughty")
        ops = NumpyBuilder(registry)
        for run in range(20):
            x = np.full((2, 3), number + run, np.float64 if number % 2 else np.float32)
            got = getattr(ops, name)(x).handle
            np.testing.assert_array_equal(got, x + number % 2)
            with pytest.raises(OperatorError, match="thrown in compute" if number % 2 else "thrown by the kernel"):
                getattr(ops, name)(x, mode="compute" if number % 2 else "kernel_throws")
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))


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
        "operator t_operand at .*:3: expected names of letters, digits and underscores for .*, got 'in put'",
    ),
    "throws": ('const int value = [] { throw std::runtime_error("thrown early"); return 1; }();', "thrown early"),
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


def test_names_with_capitals(load):
    """MLIR has no operations with capitals: the operator is found by its name, its operation is another's."""
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


MARK = b"oneflow-sdk-version=3;"
#: What the headers of that version are.
HEADERS = "966380d0bdd89559"


def test_changed_headers_are_another_version():
    """Libraries share layouts of classes with the framework: one built with other headers must be refused."""
    root = Path(flow.sysconfig.get_include()).resolve()
    text = "".join(path.read_text() for path in sorted(root.rglob("*.h")) if path.name != PLACE.name)
    found = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert found == HEADERS, f"raise ONEFLOW_SDK_VERSION and framework.VERSION, and write HEADERS = {found!r}"


def test_another_version_of_the_sdk_is_refused(build, tmp_path):
    path = build("versioned", HEAD + f'REGISTER_USER_OP("t_version").Input("in").Output("out"){SAME};' + TAIL)
    other = tmp_path / "other.so"
    other.write_bytes(path.read_bytes().replace(MARK, b"oneflow-sdk-version=7;"))
    with pytest.raises(LibraryError, match="built with version 7 of the SDK, this is version 3; compile it again"):
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
