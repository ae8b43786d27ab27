#include "infer.h"

namespace oneflow {
namespace user_op {

namespace {

std::string ArgText(const std::pair<std::string, int32_t> &arg) {
  return arg.first + "[" + std::to_string(arg.second) + "]";
}

std::string DescText(const TensorDesc &desc) { return DataType_Name(desc.data_type()) + desc.shape().ToString(); }

/// Gives results without an element type the type of the operands.
void InferDataTypes(OpCall *call) {
  DataType common = kInvalidDataType;
  bool differ = false;
  for (const auto &input : call->inputs) {
    const DataType data_type = call->descs.at(input).data_type();
    differ = differ || (common != kInvalidDataType && common != data_type);
    common = data_type;
  }
  for (const auto &output : call->outputs) {
    TensorDesc &desc = call->descs.at(output);
    if (desc.data_type() != kInvalidDataType) continue;
    if (differ || common == kInvalidDataType) {
      throw CheckError("no data type for " + ArgText(output) + ": the inputs " +
                       (differ ? "have several" : "have none") + "; call SetDataTypeInferFn");
    }
    desc.set_data_type(common);
  }
}

/// Checks that an infer function, which can write to the operands' descriptions, has not changed them.
void CheckOperands(const OpCall &call, const OpCall &given) {
  for (const auto &input : call.inputs) {
    const TensorDesc &now = call.descs.at(input), &before = given.descs.at(input);
    if (now.shape() == before.shape() && now.data_type() == before.data_type()) continue;
    throw CheckError("the infer function wrote its input " + ArgText(input) + ": it was " + DescText(before) +
                     " and became " + DescText(now) + "; write a copy, such as Shape shape = ctx->InputShape(\"" +
                     input.first + "\", " + std::to_string(input.second) + ")");
  }
}

void CheckResults(const OpCall &call) {
  for (const auto &output : call.outputs) {
    const TensorDesc &desc = call.descs.at(output);
    if (!desc.shape().is_initialized()) {
      throw CheckError("the infer function gave no shape for " + ArgText(output) +
                       "; assign *ctx->Shape4ArgNameAndIndex(\"" + output.first + "\", " +
                       std::to_string(output.second) + ")");
    }
    if (GetSizeOfDataType(desc.data_type()) == 0 || desc.data_type() == kChar) {
      throw CheckError("the infer function gave " + ArgText(output) + " a data type that tensors do not have (" +
                       std::to_string(desc.data_type()) + ")");
    }
    for (int64_t dim : desc.shape()) {
      if (dim < 0)
        throw CheckError("the infer function gave " + ArgText(output) + " the shape " + desc.shape().ToString());
    }
  }
}

void CheckSignature(const SbpOfArgs &signature, const OpCall &call, const ArgVec &args) {
  for (const auto &entry : signature) {
    if (call.descs.find(entry.first) == call.descs.end()) {
      throw CheckError("an SBP signature has an SBP for " + ArgText(entry.first) + ", which the call does not have");
    }
  }
  for (const auto &arg : args) {
    const auto found = signature.find(arg);
    if (found == signature.end()) {
      throw CheckError("an SBP signature has no SBP for " + ArgText(arg) + "; add a Split, Broadcast or PartialSum");
    }
    const int64_t rank = call.descs.at(arg).shape().NumAxes(), axis = found->second.axis();
    if (found->second.kind() == 'S' && (axis < 0 || axis >= rank)) {
      throw CheckError("an SBP signature splits " + ArgText(arg) + " along axis " + std::to_string(axis) +
                       ", expected one in [0, " + std::to_string(rank) + ")");
    }
  }
}

}  // namespace

void Infer(const OpRegistryResult &op, OpCall *call) {
  if (op.check_attr_fn) {
    const UserOpConfWrapper conf(call->conf);
    Require(Attempt([&] { return op.check_attr_fn(UserOpDefWrapper(op.signature), conf); }),
            "the check of attributes failed");
  }
  const OpCall given = *call;
  InferContext ctx(call);
  const TensorDescInferFn &logical = op.logical_tensor_desc_infer_fn;
  Require(Attempt([&] { return (logical ? logical : op.physical_tensor_desc_infer_fn)(&ctx); }),
          "the infer function failed");
  if (op.data_type_infer_fn) {
    Require(Attempt([&] { return op.data_type_infer_fn(&ctx); }), "the data type infer function failed");
  }
  CheckOperands(*call, given);
  InferDataTypes(call);
  CheckResults(*call);
}

void Modify(const OpRegistryResult &op, const OpCall &call, std::vector<std::string> *no_grad) {
  std::map<std::pair<std::string, int32_t>, InputArgModifier> inputs;
  std::map<std::pair<std::string, int32_t>, OutputArgModifier> outputs;
  const UserOpConfWrapper conf(call.conf);
  if (op.input_arg_modify_fn) {
    const auto modifier = [&](const std::string &name, int32_t index) {
      conf.input(name, index);
      return &inputs[{name, index}];
    };
    Require(Attempt([&] { return op.input_arg_modify_fn(modifier, conf); }), "the input modify function failed");
  }
  if (op.output_arg_modify_fn) {
    const auto modifier = [&](const std::string &name, int32_t index) {
      conf.output(name, index);
      return &outputs[{name, index}];
    };
    Require(Attempt([&] { return op.output_arg_modify_fn(modifier, conf); }), "the output modify function failed");
  }
  for (const auto &input : inputs) {
    if (input.second.is_mutable()) {
      throw CheckError("its kernel writes the input " + ArgText(input.first) +
                       " (set_is_mutable), but tensors do not " + "change here; give what is written as an output");
    }
    if (!input.second.requires_grad()) no_grad->push_back(input.first.first);
  }
}

std::vector<SbpOfArgs> SbpSignatures(const OpRegistryResult &op, OpCall *call) {
  std::vector<SbpOfArgs> signatures;
  if (!op.get_sbp_fn) return signatures;
  SbpContext ctx(call, &signatures);
  Require(Attempt([&] { return op.get_sbp_fn(&ctx); }), "the SBP function failed");
  for (const SbpOfArgs &signature : signatures) {
    CheckSignature(signature, *call, call->inputs);
    CheckSignature(signature, *call, call->outputs);
  }
  return signatures;
}

namespace {

/// Checks that a signature has an SBP for every tensor and mesh axis.
void CheckNdSignature(const NdSbpSignature &signature, const OpCall &call, int64_t mesh_axes) {
  for (const ArgVec *args : {&call.inputs, &call.outputs}) {
    for (const auto &arg : *args) {
      const auto found = signature.bn_in_op2nd_sbp().find(GenRepeatedBn(arg.first, arg.second));
      if (found == signature.bn_in_op2nd_sbp().end() || found->second.sbp_parallel_size() != mesh_axes) {
        throw CheckError("an nd-SBP signature has no SBP for " + ArgText(arg) + " on each of the " +
                         std::to_string(mesh_axes) + " axes of the mesh");
      }
      for (int32_t axis = 0; axis < mesh_axes; ++axis) {
        const SbpParallel &sbp = found->second.sbp_parallel(axis);
        CheckSignature({{arg, sbp}}, call, {arg});
      }
    }
  }
}

}  // namespace

std::vector<NdSbpSignature> NdSbpSignatures(const OpRegistryResult &op, OpCall *call, const Shape &mesh) {
  GetNdSbpSignatureListContext ctx(call, mesh);
  Require(Attempt([&] { return op.get_nd_sbp_list_fn(&ctx); }), "the function of nd-SBP signatures failed");
  for (const NdSbpSignature &signature : *ctx.MutNdSbpSignatureList()) {
    CheckNdSignature(signature, *call, mesh.NumAxes());
  }
  return *ctx.MutNdSbpSignatureList();
}

NdSbpSignature InferNdSbp(const OpRegistryResult &op, OpCall *call, const Shape &mesh, const NdSbpSignature &hints) {
  InferNdSbpFnContext ctx(call, mesh, hints);
  Require(Attempt([&] { return op.nd_sbp_infer_fn(&ctx); }), "the nd-SBP infer function failed");
  CheckNdSignature(ctx.made(), *call, mesh.NumAxes());
  return ctx.made();
}

double Complexity(const OpRegistryResult &op, OpCall *call) {
  ComputeComplexityFnContext ctx(call);
  return Require(Attempt([&] { return op.compute_complexity_fn(&ctx); }), "the complexity function failed");
}

Maybe<void> TensorDescInferFnUtil::Unchanged(InferContext *ctx) {
  const TensorDesc &first = ctx->InputTensorDesc(ctx->inputs().at(0).first, ctx->inputs().at(0).second);
  for (const auto &input : ctx->inputs()) {
    const Shape &shape = ctx->InputShape(input.first, input.second);
    if (shape == first.shape()) continue;
    return Error() << "Unchanged: expected inputs of one shape, got " << first.shape().ToString() << " for "
                   << ArgText(ctx->inputs()[0]) << " and " << shape.ToString() << " for " << ArgText(input);
  }
  for (const auto &output : ctx->outputs()) ctx->SetOutputShape(output.first, output.second, first.shape());
  return Maybe<void>::Ok();
}

Maybe<void> TensorDescInferFnUtil::UnchangedDataType(InferContext *ctx) {
  const DataType first = ctx->InputDType(ctx->inputs().at(0).first, ctx->inputs().at(0).second);
  for (const auto &output : ctx->outputs()) ctx->SetOutputDType(output.first, output.second, first);
  return Maybe<void>::Ok();
}

Maybe<void> TensorDescInferFnUtil::InOutCorrespond(InferContext *ctx) {
  if (ctx->inputs().size() != ctx->outputs().size()) {
    return Error() << "InOutCorrespond: expected as many outputs as inputs, got " << ctx->outputs().size() << " and "
                   << ctx->inputs().size();
  }
  for (size_t i = 0; i < ctx->inputs().size(); ++i) {
    const auto &input = ctx->inputs()[i], &output = ctx->outputs()[i];
    *ctx->OutputTensorDesc(output.first, output.second) = ctx->InputTensorDesc(input.first, input.second);
  }
  return Maybe<void>::Ok();
}

Maybe<void> GetSbpFnUtil::DefaultBroadcastToBroadcast(SbpContext *) { return Maybe<void>::Ok(); }

Maybe<void> GetSbpFnUtil::SplitForEachAxis(SbpContext *ctx) {
  const auto &first = ctx->inputs().at(0);
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex(first.first, first.second).shape().NumAxes();
  for (int64_t axis = 0; axis < rank; ++axis) {
    ctx->NewBuilder().Split(ctx->inputs(), axis).Split(ctx->outputs(), axis).Build();
  }
  return Maybe<void>::Ok();
}

}  // namespace user_op
}  // namespace oneflow
