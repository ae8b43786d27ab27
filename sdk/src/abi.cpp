#include "abi.h"

#include "infer.h"
#include "json.h"
#include "kernel.h"
#include "program.h"
#include "thrown.h"

using namespace oneflow;           // NOLINT
using namespace oneflow::user_op;  // NOLINT

struct oneflow_sdk_kernel {
  KernelLaunch launch;
  bool is_guarded;
};

namespace {

std::string &Result() {
  static thread_local std::string result;
  return result;
}

/// Runs `body`. The returned text becomes the result; an exception becomes an error.
template <typename Body>
int32_t Guarded(Body body) {
  try {
    Result() = body();
    return 0;
  } catch (...) {
    Result() = ThrownText();
  }
  return 1;
}

AttrValue ValueOf(const oneflow_sdk_attr &attr) {
  AttrValue value{static_cast<AttrType>(attr.type), {}, {}, {}, {}};
  value.ints.assign(attr.ints, attr.ints + attr.num_ints);
  value.floats.assign(attr.floats, attr.floats + attr.num_floats);
  value.texts.assign(attr.texts, attr.texts + attr.num_texts);
  value.lengths.assign(attr.lengths, attr.lengths + attr.num_lengths);
  return value;
}

TensorDesc DescOf(const oneflow_sdk_desc &desc) {
  return TensorDesc(Shape(DimVector(desc.dims, desc.dims + desc.rank)), static_cast<DataType>(desc.data_type));
}

void AddTensors(const oneflow_sdk_arg &arg, std::vector<std::string> *names, ArgVec *args, OpCall *call) {
  for (int32_t i = 0; i < arg.size; ++i) {
    const oneflow_sdk_desc &desc = arg.descs[i];
    const std::pair<std::string, int32_t> key(arg.name, i);
    call->descs[key] = desc.data_type == kInvalidDataType ? TensorDesc() : DescOf(desc);
    args->push_back(key);
    names->push_back("forward/" + key.first + "_" + std::to_string(i));
  }
}

OpCall CallOf(const OpRegistryResult &op, const oneflow_sdk_call &given) {
  OpCall call;
  OpConf conf;
  conf.op_name = conf.op_type_name = given.op;
  for (int64_t i = 0; i < given.num_attrs; ++i) conf.attrs[given.attrs[i].name] = ValueOf(given.attrs[i]);
  for (int64_t i = 0; i < given.num_inputs; ++i) {
    AddTensors(given.inputs[i], &conf.inputs[given.inputs[i].name], &call.inputs, &call);
  }
  for (int64_t i = 0; i < given.num_outputs; ++i) {
    AddTensors(given.outputs[i], &conf.outputs[given.outputs[i].name], &call.outputs, &call);
  }
  call.signature = &op.signature;
  call.conf = std::make_shared<const OpConf>(conf);
  call.device = static_cast<DeviceType>(given.device);
  return call;
}

std::string Integer(int64_t value) { return std::to_string(value); }

std::string Truth(bool value) { return value ? "true" : "false"; }

std::string PairJson(const std::pair<size_t, size_t> &pair) {
  return json::List({std::to_string(pair.first), std::to_string(pair.second)});
}

std::string ArgJson(const ArgDef &arg) {
  return json::Object({{"name", json::Text(arg.name)},
                       {"least", Integer(arg.least)},
                       {"most", Integer(arg.most)},
                       {"optional", Truth(arg.is_optional)}});
}

std::string AttrJson(const AttrDef &attr) {
  return json::Object({{"name", json::Text(attr.name)},
                       {"type", Integer(attr.type)},
                       {"default", attr.has_default ? json::Attribute(attr.value) : "null"}});
}

std::string OperatorJson(const OpRegistryResult *op) {
  const OpSignature &signature = op->signature;
  return json::Object({{"name", json::Text(signature.name)},
                       {"where", json::Text(signature.where)},
                       {"inputs", json::ListOf(signature.inputs, ArgJson)},
                       {"outputs", json::ListOf(signature.outputs, ArgJson)},
                       {"attrs", json::ListOf(signature.attrs, AttrJson)},
                       {"cpu_only", Truth(op->is_cpu_only)},
                       {"no_grad", Truth(op->no_grad)},
                       {"has_nd_sbp_list", Truth(static_cast<bool>(op->get_nd_sbp_list_fn))},
                       {"has_nd_sbp_infer", Truth(static_cast<bool>(op->nd_sbp_infer_fn))},
                       {"has_complexity", Truth(static_cast<bool>(op->compute_complexity_fn))},
                       {"has_grad", Truth(Registry::Instance().Gradient(signature.name) != nullptr)},
                       {"has_grad_function", Truth(Registry::Instance().GradFunction(signature.name) != nullptr)}});
}

std::string DescJson(const TensorDesc &desc) {
  return json::Object({{"data_type", Integer(desc.data_type())}, {"dims", json::ListOf(desc.shape(), Integer)}});
}

std::string SbpJson(const SbpOfArgs &signature, const OpCall &call) {
  std::vector<std::string> entries;
  for (const ArgVec *args : {&call.inputs, &call.outputs}) {
    for (const auto &arg : *args) {
      const SbpParallel &sbp = signature.at(arg);
      entries.push_back(json::List({json::Text(std::string(1, sbp.kind())), Integer(sbp.axis())}));
    }
  }
  return json::List(entries);
}

std::string NdSbpJson(const NdSbpSignature &signature, const OpCall &call) {
  std::vector<std::string> tensors;
  for (const ArgVec *args : {&call.inputs, &call.outputs}) {
    for (const auto &arg : *args) {
      const NdSbp &nd = signature.bn_in_op2nd_sbp().at(GenRepeatedBn(arg.first, arg.second));
      std::vector<std::string> along;
      for (int32_t axis = 0; axis < nd.sbp_parallel_size(); ++axis) {
        const SbpParallel &sbp = nd.sbp_parallel(axis);
        along.push_back(json::List({json::Text(std::string(1, sbp.kind())), Integer(sbp.axis())}));
      }
      tensors.push_back(json::List(along));
    }
  }
  return json::List(tensors);
}

NdSbpSignature HintsOf(const OpCall &call, int64_t mesh_axes, const int64_t *hints) {
  NdSbpSignature made;
  for (const auto &arg : call.inputs) {
    NdSbp &nd = (*made.mutable_bn_in_op2nd_sbp())[GenRepeatedBn(arg.first, arg.second)];
    for (int64_t axis = 0; axis < mesh_axes; ++axis, hints += 2) {
      *nd.add_sbp_parallel() = SbpParallel(static_cast<char>(hints[0]), hints[1]);
    }
  }
  return made;
}

std::string OperationJson(const UserOpConfWrapper &op) {
  const OpConf &conf = op.op_conf();
  std::vector<std::pair<std::string, std::string>> inputs, outputs, attrs;
  for (const auto &input : conf.inputs) inputs.emplace_back(input.first, json::ListOf(input.second, json::Text));
  for (const auto &output : conf.outputs)
    outputs.emplace_back(output.first, Integer(static_cast<int64_t>(output.second.size())));
  for (const auto &attr : conf.attrs) attrs.emplace_back(attr.first, json::Attribute(attr.second));
  return json::Object({{"name", json::Text(conf.op_name)},
                       {"op", json::Text(conf.op_type_name)},
                       {"inputs", json::Object(inputs)},
                       {"outputs", json::Object(outputs)},
                       {"attrs", json::Object(attrs)}});
}

std::string BindingJson(const std::pair<const std::pair<std::string, int32_t>, std::string> &binding) {
  return json::List({json::Text(binding.first.first), Integer(binding.first.second), json::Text(binding.second)});
}

one::TensorTuple TensorsOf(const oneflow_sdk_tensor *tensors, int64_t count) {
  one::TensorTuple made;
  for (int64_t i = 0; i < count; ++i) {
    const bool is_there = tensors[i].id >= 0;
    made.push_back(is_there ? std::make_shared<one::Tensor>(tensors[i].id, DescOf(tensors[i].desc)) : nullptr);
  }
  return made;
}

one::functional::Argument ArgumentOf(const oneflow_sdk_argument &given) {
  using one::functional::Argument;
  if (given.kind == 1) return Argument::Of(TensorsOf(given.tensors, given.num_tensors));
  return given.kind == 2 ? Argument::Of(ValueOf(given.value)) : Argument();
}

std::string IdJson(const std::shared_ptr<one::Tensor> &tensor) { return tensor ? Integer(tensor->id()) : "null"; }

one::TensorTuple Differentiate(const GradFunctionEntry &entry, const OpCall &call,
                               const oneflow_sdk_tensor *tensors) {
  const auto num_inputs = static_cast<int64_t>(call.inputs.size()),
             num_outputs = static_cast<int64_t>(call.outputs.size());
  const one::TensorTuple inputs = TensorsOf(tensors, num_inputs);
  const one::TensorTuple outputs = TensorsOf(tensors + num_inputs, num_outputs);
  const one::TensorTuple out_grads = TensorsOf(tensors + num_inputs + num_outputs, num_outputs);
  const std::string what = "the gradient function (" + entry.where + ") failed";
  const std::shared_ptr<one::OpExprGradFunctionIf> function = entry.create();
  Require(Attempt([&] { return function->Init(one::UserOpExpr(*call.conf, {})); }), what);
  one::TensorTuple in_grads(inputs.size());
  const AttrMap attrs(call.conf->attrs);
  Require(Attempt([&] { return function->Differentiate(inputs, outputs, attrs, out_grads, &in_grads); }), what);
  if (in_grads.size() > inputs.size()) {
    throw CheckError(what + ": expected at most " + std::to_string(inputs.size()) +
                     " gradients, one for each input, got " + std::to_string(in_grads.size()));
  }
  return in_grads;
}

}  // namespace

int32_t oneflow_sdk_version() { return ONEFLOW_SDK_VERSION; }

const char *oneflow_sdk_result() { return Result().c_str(); }

int32_t oneflow_sdk_open(const char *path) {
  return Guarded([&] { return json::ListOf(Registry::Instance().Open(path), OperatorJson); });
}

int32_t oneflow_sdk_discard() {
  return Guarded([] {
    Registry::Instance().Discard();
    return std::string();
  });
}

int32_t oneflow_sdk_infer(const oneflow_sdk_call *given) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    Infer(op, &call);
    std::vector<std::string> no_grad;
    Modify(op, call, &no_grad);
    const auto desc_of = [&](const std::pair<std::string, int32_t> &arg) { return DescJson(call.descs.at(arg)); };
    return json::Object(
        {{"results", json::ListOf(call.outputs, desc_of)}, {"no_grad", json::ListOf(no_grad, json::Text)}});
  });
}

int32_t oneflow_sdk_sbp(const oneflow_sdk_call *given) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    return json::ListOf(SbpSignatures(op, &call), [&](const SbpOfArgs &s) { return SbpJson(s, call); });
  });
}

int32_t oneflow_sdk_nd_sbp_list(const oneflow_sdk_call *given, const int64_t *mesh, int64_t mesh_axes) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    const auto list = NdSbpSignatures(op, &call, Shape(DimVector(mesh, mesh + mesh_axes)));
    return json::ListOf(list, [&](const NdSbpSignature &s) { return NdSbpJson(s, call); });
  });
}

int32_t oneflow_sdk_nd_sbp_infer(const oneflow_sdk_call *given, const int64_t *mesh, int64_t mesh_axes,
                                 const int64_t *hints) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    const Shape shape(DimVector(mesh, mesh + mesh_axes));
    return NdSbpJson(InferNdSbp(op, &call, shape, HintsOf(call, mesh_axes, hints)), call);
  });
}

int32_t oneflow_sdk_complexity(const oneflow_sdk_call *given) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    return json::Number(Complexity(op, &call));
  });
}

int32_t oneflow_sdk_gradient(const oneflow_sdk_call *given) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    const BackwardProgram program = Gradient(op, &call);
    return json::Object({{"ops", json::ListOf(program.ops, OperationJson)},
                         {"bindings", json::ListOf(program.bindings, BindingJson)},
                         {"notes", json::ListOf(program.notes, json::Text)}});
  });
}

int32_t oneflow_sdk_kernel_matches(const oneflow_sdk_call *given) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    return Truth(FindKernel(op, &call) != nullptr);
  });
}

int32_t oneflow_sdk_kernel_in_place(const oneflow_sdk_call *given) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    OpCall call = CallOf(op, *given);
    const OpKernelRegistryResult *kernel = FindKernel(op, &call);
    return json::ListOf(kernel == nullptr ? InPlacePairs() : ProposedPairs(*kernel, &call), PairJson);
  });
}

int32_t oneflow_sdk_kernel_create(const oneflow_sdk_call *given, int32_t guarded, oneflow_sdk_kernel **kernel) {
  return Guarded([&] {
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    *kernel = new oneflow_sdk_kernel{KernelLaunch(op, CallOf(op, *given)), guarded != 0};
    return std::string();
  });
}

int32_t oneflow_sdk_kernel_run(oneflow_sdk_kernel *kernel, void *const *buffers, void *stream) {
  return Guarded([&] {
    if (kernel->is_guarded) {
      kernel->launch.RunGuarded(buffers);
    } else {
      kernel->launch.Run(buffers, stream);
    }
    return std::string();
  });
}

void oneflow_sdk_kernel_destroy(oneflow_sdk_kernel *kernel) { delete kernel; }

void oneflow_sdk_reply(const char *error, const oneflow_sdk_tensor *results, int64_t count) {
  one::Program *program = one::Program::Current();
  if (program != nullptr) program->Reply(error, TensorsOf(results, count));
}

int32_t oneflow_sdk_function_call(const char *name, const oneflow_sdk_argument *args, int64_t count,
                                  oneflow_sdk_build build) {
  return Guarded([&] {
    one::Program program(build);
    std::vector<one::functional::Argument> arguments;
    for (int64_t i = 0; i < count; ++i) arguments.push_back(ArgumentOf(args[i]));
    return json::ListOf(*CHECK_JUST(one::functional::detail::CallFunctor(name, arguments)), IdJson);
  });
}

int32_t oneflow_sdk_grad_function(const oneflow_sdk_call *given, const oneflow_sdk_tensor *tensors,
                                  oneflow_sdk_build build) {
  return Guarded([&] {
    one::Program program(build);
    const OpRegistryResult &op = Registry::Instance().Operator(given->op);
    return json::ListOf(
        Differentiate(*CHECK_NOTNULL(Registry::Instance().GradFunction(given->op)), CallOf(op, *given), tensors),
        IdJson);
  });
}
