// REGISTER_USER_OP: the name, parts and rules of an operator.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "oneflow/core/framework/infer_context.h"
#include "oneflow/core/framework/refused_context.h"

namespace oneflow {
namespace user_op {

using CheckAttrFn = MaybeFn<const UserOpDefWrapper &, const UserOpConfWrapper &>;
using TensorDescInferFn = MaybeFn<InferContext *>;
using DataTypeInferFn = MaybeFn<InferContext *>;
using GetSbpFn = MaybeFn<SbpContext *>;
using SbpSignatureInferFn = MaybeFn<InferSbpSignatureFnContext *>;
using NdSbpInferFn = MaybeFn<InferNdSbpFnContext *>;
using GetNdSbpSignatureListFn = MaybeFn<GetNdSbpSignatureListContext *>;
using EnumerateNdSbpSignaturesFn = GetNdSbpSignatureListFn;
using DumpNdSbpSignatureForOpConfFn = MaybeFn<const NdSbpSignature &, OperatorConf *>;
using OutputBlobTimeShapeInferFn = MaybeFn<InferOutputBlobTimeShapeFnContext *>;
using DeviceAndStreamInferFn = std::function<Maybe<Symbol<Stream>>(DeviceAndStreamInferContext *)>;
using ComputeComplexityFn = std::function<Maybe<double>(ComputeComplexityFnContext *)>;
using InputArgModifyFn = MaybeFn<const GetInputArgModifier &, const UserOpConfWrapper &>;
using OutputArgModifyFn = MaybeFn<const GetOutputArgModifier &, const UserOpConfWrapper &>;

/// An operator: the signature and the rules.
struct OpRegistryResult {
  OpSignature signature;
  bool is_cpu_only = false;
  bool no_grad = false;
  CheckAttrFn check_attr_fn;
  TensorDescInferFn logical_tensor_desc_infer_fn;
  TensorDescInferFn physical_tensor_desc_infer_fn;
  DataTypeInferFn data_type_infer_fn;
  GetSbpFn get_sbp_fn;
  NdSbpInferFn nd_sbp_infer_fn;
  GetNdSbpSignatureListFn get_nd_sbp_list_fn;
  ComputeComplexityFn compute_complexity_fn;
  InputArgModifyFn input_arg_modify_fn;
  OutputArgModifyFn output_arg_modify_fn;
};

/// Builds an operator; every method returns the registry, so that calls can be chained.
class OpRegistry final {
 public:
  OpRegistry(const std::string &name, const char *file, int line);

  OpRegistry &Name(const std::string &name);
  OpRegistry &Input(const std::string &name) { return AddInput(name, 1, 1, false); }
  OpRegistry &Input(const std::string &name, int32_t size) { return AddInput(name, size, size, false); }
  OpRegistry &InputWithMinimum(const std::string &name, int32_t least) { return AddInput(name, least, -1, false); }
  OpRegistry &OptionalInput(const std::string &name) { return AddInput(name, 1, 1, true); }
  OpRegistry &OptionalInput(const std::string &name, int32_t size) { return AddInput(name, size, size, true); }
  OpRegistry &OptionalInputWithMinimum(const std::string &name, int32_t least) {
    return AddInput(name, least, -1, true);
  }
  OpRegistry &OptionalInputWithMininum(const std::string &name, int32_t least) {
    return OptionalInputWithMinimum(name, least);
  }
  OpRegistry &Output(const std::string &name) { return AddOutput(name, 1, 1, false); }
  OpRegistry &Output(const std::string &name, int32_t size) { return AddOutput(name, size, size, false); }
  OpRegistry &OutputWithMinimum(const std::string &name, int32_t least) { return AddOutput(name, least, -1, false); }
  OpRegistry &OptionalOutput(const std::string &name) { return AddOutput(name, 1, 1, true); }
  OpRegistry &OptionalOutput(const std::string &name, int32_t size) { return AddOutput(name, size, size, true); }
  OpRegistry &OptionalOutputWithMinimum(const std::string &name, int32_t least) {
    return AddOutput(name, least, -1, true);
  }
  OpRegistry &OptionalOutputWithMininum(const std::string &name, int32_t least) {
    return OptionalOutputWithMinimum(name, least);
  }

  /// An attribute that a program has to give, of the type T: `.Attr<float>("alpha")`.
  template <typename T>
  OpRegistry &Attr(const std::string &name) {
    return AddAttr(AttrDef{name, AttrTraits<T>::Type(), false, AttrValue()});
  }
  /// An attribute with a default.
  template <typename T>
  OpRegistry &Attr(const std::string &name, const T &value) {
    return AddAttr(AttrDef{name, AttrTraits<T>::Type(), true, AttrTraits<T>::Pack(value)});
  }
  OpRegistry &Attr(const std::string &name, const char *value) { return Attr(name, std::string(value)); }
  /// The older form: `.Attr("size", UserOpAttrType::kAtInt32, 10)`.
  OpRegistry &Attr(const std::string &name, AttrType type) {
    return AddAttr(AttrDef{name, type, false, AttrValue()});
  }
  template <typename T>
  OpRegistry &Attr(const std::string &name, AttrType type, const T &value) {
    return AddAttr(name, type, AttrTraits<T>::Pack(value));
  }
  OpRegistry &Attr(const std::string &name, AttrType type, const char *value) {
    return Attr(name, type, std::string(value));
  }

  OpRegistry &SupportCpuOnly();
  OpRegistry &NoGrad();
  OpRegistry &SupportNonContiguous() { return *this; }
  OpRegistry &SetOutputBufferNum(int32_t) { return *this; }

  OpRegistry &SetCheckAttrFn(CheckAttrFn fn);
  OpRegistry &SetTensorDescInferFn(TensorDescInferFn fn) { return SetLogicalTensorDescInferFn(fn); }
  OpRegistry &SetShapeInferFn(TensorDescInferFn fn) { return SetLogicalTensorDescInferFn(fn); }
  OpRegistry &SetLogicalTensorDescInferFn(TensorDescInferFn fn);
  /// Used if there is no logical function; the part of one device is inferred as a separate call.
  OpRegistry &SetPhysicalTensorDescInferFn(TensorDescInferFn fn);
  OpRegistry &SetDataTypeInferFn(DataTypeInferFn fn);
  OpRegistry &SetGetSbpFn(GetSbpFn fn);
  /// Sets the SBPs of results for SBPs of operands; called for every combination of SBPs from SetGetSbpFn.
  OpRegistry &SetNdSbpInferFn(NdSbpInferFn fn);
  /// Lists the signatures on a mesh of several axes, in place of combinations of SetGetSbpFn's.
  OpRegistry &SetGetNdSbpSignatureListFn(GetNdSbpSignatureListFn fn);
  /// The multiply-adds of a call, by which strategies are compared.
  OpRegistry &SetComputeComplexityFn(ComputeComplexityFn fn);
  /// Sets the SBPs of results for SBPs of operands, along each axis of a mesh separately.
  OpRegistry &SetSbpSignatureInferFn(SbpSignatureInferFn fn);
  /// The older name of SetGetNdSbpSignatureListFn.
  OpRegistry &SetEnumerateNdSbpSignaturesFn(EnumerateNdSbpSignaturesFn fn) {
    return SetGetNdSbpSignatureListFn(std::move(fn));
  }
  OpRegistry &SetDumpNdSbpSignatureForOpConfFn(const DumpNdSbpSignatureForOpConfFn &) {
    return Refuse("SetDumpNdSbpSignatureForOpConfFn", "programs carry their signatures as attributes; remove the call");
  }
  OpRegistry &SetOutputBlobTimeShapeInferFn(const OutputBlobTimeShapeInferFn &) {
    return Refuse("SetOutputBlobTimeShapeInferFn", "tensors are not repeated in time; remove the call");
  }
  OpRegistry &SetDeviceAndStreamInferFn(const DeviceAndStreamInferFn &) {
    return Refuse("SetDeviceAndStreamInferFn",
                  "kernels run where their program does; remove the call, and choose kernels by HobDeviceType");
  }
  OpRegistry &SetInputArgModifyFn(InputArgModifyFn fn);
  OpRegistry &SetOutputArgModifyFn(OutputArgModifyFn fn);

  OpRegistry &Finish() { return *this; }
  const OpRegistryResult &GetResult() const { return result_; }

 private:
  OpRegistry &AddInput(const std::string &name, int64_t least, int64_t most, bool is_optional);
  OpRegistry &AddOutput(const std::string &name, int64_t least, int64_t most, bool is_optional);
  OpRegistry &AddAttr(const AttrDef &attr);
  OpRegistry &AddAttr(const std::string &name, AttrType type, const AttrValue &value);
  void AddName(const std::string &name);
  void AddArg(std::vector<ArgDef> *args, const ArgDef &arg);
  void Fail(const std::string &text);
  OpRegistry &Refuse(const std::string &function, const std::string &advice);

  OpRegistryResult result_;
};

}  // namespace user_op
}  // namespace oneflow
