// The chains of calls that collect an operator, a kernel or a gradient.
#include "registry.h"

namespace oneflow {
namespace user_op {

namespace {

std::string Where(const char *file, int line) { return std::string(file) + ":" + std::to_string(line); }

/// The members of an AttrValue that an attribute kind uses.
enum class Store { kInts, kFloats, kTexts, kLengths };

Store StoreOf(AttrType type) {
  if (type == kAtListShape) return Store::kLengths;
  if (type == kAtString || type == kAtListString) return Store::kTexts;
  return type == kAtFloat || type == kAtDouble || type == kAtListFloat ? Store::kFloats : Store::kInts;
}

/// Whether two attribute kinds have the same storage, so that a value of one may be a default of the other.
bool KeptAlike(const AttrValue &value, AttrType type) {
  const auto is_list = [](AttrType t) { return t == kAtShape || t >= kAtListInt32; };
  return is_list(value.type) == is_list(type) && StoreOf(value.type) == StoreOf(type);
}

}  // namespace

OpRegistry::OpRegistry(const std::string &name, const char *file, int line) {
  result_.signature.name = name;
  result_.signature.where = Where(file, line);
}

OpRegistry &OpRegistry::Name(const std::string &name) {
  result_.signature.name = name;
  return *this;
}

void OpRegistry::Fail(const std::string &text) {
  Registry::Instance().Fail(result_.signature.where, "the operator " + result_.signature.name + ": " + text);
}

void OpRegistry::AddName(const std::string &name) {
  const OpSignature &signature = result_.signature;
  const UserOpDefWrapper def(signature);
  if (def.IsInputArgName(name) || def.IsOutputArgName(name) || def.IsAttrName(name)) {
    Fail("the name " + name + " is used twice among inputs, outputs and attributes; rename one");
  }
}

void OpRegistry::AddArg(std::vector<ArgDef> *args, const ArgDef &arg) {
  AddName(arg.name);
  if (arg.least < 0 || arg.most == 0) {
    Fail("expected a positive number of tensors for " + arg.name + ", got " + std::to_string(arg.least));
  }
  args->push_back(arg);
}

OpRegistry &OpRegistry::AddInput(const std::string &name, int64_t least, int64_t most, bool is_optional) {
  AddArg(&result_.signature.inputs, ArgDef{name, least, most, is_optional});
  return *this;
}

OpRegistry &OpRegistry::AddOutput(const std::string &name, int64_t least, int64_t most, bool is_optional) {
  AddArg(&result_.signature.outputs, ArgDef{name, least, most, is_optional});
  return *this;
}

OpRegistry &OpRegistry::AddAttr(const AttrDef &attr) {
  AddName(attr.name);
  result_.signature.attrs.push_back(attr);
  return *this;
}

OpRegistry &OpRegistry::AddAttr(const std::string &name, AttrType type, const AttrValue &value) {
  if (!KeptAlike(value, type)) {
    Fail("the attribute " + name + " is of the kind " + AttrTypeName(type) + ", its default of the kind " +
         AttrTypeName(value.type));
  }
  AttrValue retyped = value;
  retyped.type = type;
  return AddAttr(AttrDef{name, type, true, retyped});
}

OpRegistry &OpRegistry::SupportCpuOnly() {
  result_.is_cpu_only = true;
  return *this;
}

OpRegistry &OpRegistry::NoGrad() {
  result_.no_grad = true;
  return *this;
}

OpRegistry &OpRegistry::SetCheckAttrFn(CheckAttrFn fn) {
  result_.check_attr_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetLogicalTensorDescInferFn(TensorDescInferFn fn) {
  result_.logical_tensor_desc_infer_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetPhysicalTensorDescInferFn(TensorDescInferFn fn) {
  result_.physical_tensor_desc_infer_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetDataTypeInferFn(DataTypeInferFn fn) {
  result_.data_type_infer_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetGetSbpFn(GetSbpFn fn) {
  result_.get_sbp_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetNdSbpInferFn(NdSbpInferFn fn) {
  result_.nd_sbp_infer_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetSbpSignatureInferFn(SbpSignatureInferFn fn) {
  return SetNdSbpInferFn([fn](InferNdSbpFnContext *ctx) -> Maybe<void> {
    for (int32_t axis = 0; axis < ctx->parallel_hierarchy().NumAxes(); ++axis) {
      InferSbpSignatureFnContext along = ctx->Along(axis);
      JUST(fn(&along));
      ctx->Add(*along.mutable_sbp_signature());
    }
    return Maybe<void>::Ok();
  });
}

OpRegistry &OpRegistry::SetGetNdSbpSignatureListFn(GetNdSbpSignatureListFn fn) {
  result_.get_nd_sbp_list_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetComputeComplexityFn(ComputeComplexityFn fn) {
  result_.compute_complexity_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::Refuse(const std::string &function, const std::string &advice) {
  Fail(function + " is not supported: " + advice);
  return *this;
}

OpRegistry &OpRegistry::SetInputArgModifyFn(InputArgModifyFn fn) {
  result_.input_arg_modify_fn = std::move(fn);
  return *this;
}

OpRegistry &OpRegistry::SetOutputArgModifyFn(OutputArgModifyFn fn) {
  result_.output_arg_modify_fn = std::move(fn);
  return *this;
}

OpKernelRegistry::OpKernelRegistry(const std::string &name, const char *file, int line) {
  result_.name = name;
  result_.where = Where(file, line);
}

OpKernelRegistry &OpKernelRegistry::Name(const std::string &name) {
  result_.name = name;
  return *this;
}

OpKernelRegistry &OpKernelRegistry::SetCreator(OpKernelCreateFn fn) {
  result_.create_fn = std::move(fn);
  return *this;
}

OpKernelRegistry &OpKernelRegistry::SetIsMatchedHob(const HobBool &hob) {
  result_.is_matched_hob = hob;
  return *this;
}

OpKernelRegistry &OpKernelRegistry::SetIsMatchedPred(IsMatchedPred pred) {
  return SetIsMatchedHob(hob::make_custom("its SetIsMatchedPred function", std::move(pred)));
}

OpKernelRegistry &OpKernelRegistry::SetInferTmpSizeFn(InferTmpSizeFn fn) {
  result_.infer_tmp_size_fn = std::move(fn);
  return *this;
}

OpKernelRegistry &OpKernelRegistry::SetInplaceProposalFn(InplaceProposalFn fn) {
  result_.inplace_proposal_fn = std::move(fn);
  return *this;
}

OpKernelRegistry &OpKernelRegistry::SetPriority(int32_t priority) {
  result_.priority = priority;
  return *this;
}

OpGradRegistry::OpGradRegistry(const std::string &name, const char *file, int line) {
  result_.name = name;
  result_.where = Where(file, line);
}

OpGradRegistry &OpGradRegistry::Name(const std::string &name) {
  result_.name = name;
  return *this;
}

OpGradRegistry &OpGradRegistry::SetBackwardOpConfGenFn(BackwardOpConfGenFn fn) {
  result_.bw_gen_fn = std::move(fn);
  return *this;
}

OpGradRegistry &OpGradRegistry::SetGenBackwardOpConfFn(GenBackwardOpConfFn fn) {
  result_.gen_bw_fn = std::move(fn);
  return *this;
}

}  // namespace user_op
}  // namespace oneflow
