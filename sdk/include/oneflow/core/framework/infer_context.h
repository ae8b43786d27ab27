// Contexts of functions that infer the results of a call and the layouts in which the call may be split over devices.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "oneflow/core/framework/op_call.h"

namespace oneflow {
namespace user_op {

/// The argument of an infer function, which reads operands and attributes and writes shapes and types of results.
class InferContext final : public OpContext {
 public:
  using OpContext::OpContext;

  TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Find(name, index);
  }
  const TensorDesc *LogicalTensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Find(name, index);
  }
  const TensorDesc &InputTensorDesc(const std::string &name, int32_t index) const { return Get(name, index); }
  TensorDesc *OutputTensorDesc(const std::string &name, int32_t index) const { return &Get(name, index); }
  TensorDesc *MutOutputTensorDesc(const std::string &name, int32_t index) const { return &Get(name, index); }

  Shape *Shape4ArgNameAndIndex(const std::string &name, int32_t index) const { return Get(name, index).mut_shape(); }
  DataType *Dtype4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return Get(name, index).mut_data_type();
  }
  bool *IsDynamic4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return Get(name, index).mut_is_dynamic();
  }
  const Shape &InputShape(const std::string &name, int32_t index) const { return Get(name, index).shape(); }
  DataType InputDType(const std::string &name, int32_t index) const { return Get(name, index).data_type(); }
  Stride InputStride(const std::string &name, int32_t index) const { return Get(name, index).stride(); }
  Stride OutputStride(const std::string &name, int32_t index) const { return Get(name, index).stride(); }
  Stride Stride4ArgNameAndIndex(const std::string &name, int32_t index) const { return Get(name, index).stride(); }
  MemoryFormat InputMemoryFormat(const std::string &name, int32_t index) const {
    return Get(name, index).memory_format();
  }
  MemoryFormat OutputMemoryFormat(const std::string &name, int32_t index) const {
    return Get(name, index).memory_format();
  }
  MemoryFormat MemoryFormat4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return Get(name, index).memory_format();
  }
  bool InputIsDynamic(const std::string &name, int32_t index) const { return Get(name, index).is_dynamic(); }
  Shape *OutputShape(const std::string &name, int32_t index) const { return Shape4ArgNameAndIndex(name, index); }
  Shape *MutOutputShape(const std::string &name, int32_t index) const { return Shape4ArgNameAndIndex(name, index); }
  DataType *OutputDType(const std::string &name, int32_t index) const { return Dtype4ArgNameAndIndex(name, index); }
  DataType *MutOutputDType(const std::string &name, int32_t index) const {
    return Dtype4ArgNameAndIndex(name, index);
  }
  bool *OutputIsDynamic(const std::string &name, int32_t index) const {
    return IsDynamic4ArgNameAndIndex(name, index);
  }
  bool *MutOutputIsDynamic(const std::string &name, int32_t index) const {
    return IsDynamic4ArgNameAndIndex(name, index);
  }

  void SetOutputShape(const std::string &name, int32_t index, const Shape &shape) const {
    Get(name, index).set_shape(shape);
  }
  void SetOutputDType(const std::string &name, int32_t index, DataType data_type) const {
    Get(name, index).set_data_type(data_type);
  }
  void SetOutputIsDynamic(const std::string &name, int32_t index, bool is_dynamic) const {
    Get(name, index).set_is_dynamic(is_dynamic);
  }
  /// Tensors are contiguous; strides and memory formats have no effect.
  void SetOutputStride(const std::string &name, int32_t index, const Stride &) const { Get(name, index); }
  void SetStride4ArgNameAndIndex(const std::string &name, int32_t index, const Stride &) const { Get(name, index); }
  void SetOutputMemoryFormat(const std::string &name, int32_t index, MemoryFormat) const { Get(name, index); }
  void SetMemoryFormat4ArgNameAndIndex(const std::string &name, int32_t index, MemoryFormat) const {
    Get(name, index);
  }
  void SetShape4ArgNameAndIndex(const std::string &name, int32_t index, const Shape &shape) const {
    SetOutputShape(name, index, shape);
  }
  void SetDtype4ArgNameAndIndex(const std::string &name, int32_t index, DataType data_type) const {
    SetOutputDType(name, index, data_type);
  }
  void SetIsDynamic4ArgNameAndIndex(const std::string &name, int32_t index, bool is_dynamic) const {
    SetOutputIsDynamic(name, index, is_dynamic);
  }

 private:
  TensorDesc &Get(const std::string &name, int32_t index) const { return *call()->Get(name, index); }
};

using SbpOfArgs = std::map<std::pair<std::string, int32_t>, SbpParallel>;

/// Makes one SBP signature; Build adds the signature to the signatures of the call.
class UserOpSbpSignatureBuilder final {
 public:
  explicit UserOpSbpSignatureBuilder(std::vector<SbpOfArgs> *list) : list_(list) {}

  UserOpSbpSignatureBuilder &Split(const OpArg &arg, int64_t axis) { return Set(arg, SbpParallel('S', axis)); }
  UserOpSbpSignatureBuilder &Broadcast(const OpArg &arg) { return Set(arg, SbpParallel('B', 0)); }
  UserOpSbpSignatureBuilder &PartialSum(const OpArg &arg) { return Set(arg, SbpParallel('P', 0)); }
  template <typename Arg>
  UserOpSbpSignatureBuilder &Split(const std::vector<Arg> &args, int64_t axis) {
    return SetAll(args, SbpParallel('S', axis));
  }
  template <typename Arg>
  UserOpSbpSignatureBuilder &Broadcast(const std::vector<Arg> &args) {
    return SetAll(args, SbpParallel('B', 0));
  }
  template <typename Arg>
  UserOpSbpSignatureBuilder &PartialSum(const std::vector<Arg> &args) {
    return SetAll(args, SbpParallel('P', 0));
  }
  void Build() { list_->push_back(signature_); }

 private:
  static OpArg ArgOf(const OpArg &arg) { return arg; }
  static OpArg ArgOf(const std::pair<std::string, int32_t> &arg) { return OpArg(arg.first, arg.second); }

  UserOpSbpSignatureBuilder &Set(const OpArg &arg, SbpParallel sbp) {
    signature_[{arg.name(), arg.index()}] = sbp;
    return *this;
  }
  template <typename Arg>
  UserOpSbpSignatureBuilder &SetAll(const std::vector<Arg> &args, SbpParallel sbp) {
    for (const Arg &arg : args) Set(ArgOf(arg), sbp);
    return *this;
  }

  SbpOfArgs signature_;
  std::vector<SbpOfArgs> *list_;
};

/// The argument of an SBP function, to which signatures are added: `ctx->NewBuilder().Split(..).Build()`.
class SbpContext final : public OpContext {
 public:
  SbpContext(OpCall *call, std::vector<SbpOfArgs> *list) : OpContext(call), list_(list) {}

  const TensorDesc &LogicalTensorDesc4InputArgNameAndIndex(const std::string &name, int32_t index) const {
    return *call()->Get(name, index);
  }
  int64_t hierarchy_value() const { return parallel_num(); }
  UserOpSbpSignatureBuilder NewBuilder() { return UserOpSbpSignatureBuilder(list_); }

 private:
  std::vector<SbpOfArgs> *list_;
};

/// The call and the mesh, for functions of nd-signatures.
class NdSbpContext : public OpContext {
 public:
  NdSbpContext(OpCall *call, const Shape &hierarchy) : OpContext(call), hierarchy_(hierarchy) {}

  const TensorDesc &LogicalTensorDesc4InputArgNameAndIndex(const std::string &name, int32_t index) const {
    return *call()->Get(name, index);
  }
  const Shape &BlobShape4InputArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Get(name, index)->shape();
  }
  /// The sizes of the mesh.
  const Shape &parallel_hierarchy() const { return hierarchy_; }
  int64_t parallel_num() const { return hierarchy_.elem_cnt(); }

 private:
  Shape hierarchy_;
};

/// The argument of SetSbpSignatureInferFn, which sets the SBPs of a call along one mesh axis.
class InferSbpSignatureFnContext final : public OpContext {
 public:
  InferSbpSignatureFnContext(OpCall *call, SbpSignature hints, int64_t parallel_num)
      : OpContext(call), hints_(std::move(hints)), parallel_num_(parallel_num) {}

  const TensorDesc &LogicalTensorDesc4InputArgNameAndIndex(const std::string &name, int32_t index) const {
    return *call()->Get(name, index);
  }
  const SbpParallel &SbpParallelHint4InputArgNameAndIndex(const std::string &name, int32_t index) const {
    input(name, index);
    return hints_.bn_in_op2sbp_parallel().at(GenRepeatedBn(name, index));
  }
  SbpSignature *mutable_sbp_signature() { return &made_; }
  /// The signature that the user has requested: none.
  const SbpSignature &sbp_signature_conf() const { return asked_; }
  int64_t parallel_num() const { return parallel_num_; }

 private:
  SbpSignature hints_, made_, asked_;
  int64_t parallel_num_;
};

/// The argument of SetNdSbpInferFn, which sets the nd-SBPs of a call; `hints` are the nd-SBPs of the operands.
class InferNdSbpFnContext final : public NdSbpContext {
 public:
  InferNdSbpFnContext(OpCall *call, const Shape &hierarchy, NdSbpSignature hints)
      : NdSbpContext(call, hierarchy), hints_(std::move(hints)) {}

  const NdSbp &NdSbpHint4InputArgNameAndIndex(const std::string &name, int32_t index) const {
    input(name, index);
    return hints_.bn_in_op2nd_sbp().at(GenRepeatedBn(name, index));
  }
  NdSbp *NdSbp4ArgNameAndIndex(const std::string &name, int32_t index) {
    if (!has_input_or_output(name, index)) {
      detail::Refuse(Error() << "there is no tensor " << GenRepeatedBn(name, index));
    }
    return &(*made_.mutable_bn_in_op2nd_sbp())[GenRepeatedBn(name, index)];
  }
  /// The signature that the user has requested: none.
  const NdSbpSignature &nd_sbp_constraints() const { return constraints_; }
  const NdSbpSignature &made() const { return made_; }

  /// The hints along one mesh axis.
  InferSbpSignatureFnContext Along(int32_t axis) const {
    SbpSignature hints;
    for (const auto &hint : hints_.bn_in_op2nd_sbp()) {
      (*hints.mutable_bn_in_op2sbp_parallel())[hint.first] = hint.second.sbp_parallel(axis);
    }
    return InferSbpSignatureFnContext(call(), hints, parallel_hierarchy().At(axis));
  }
  /// Sets the SBPs along the next mesh axis.
  void Add(const SbpSignature &along) {
    for (const auto &tensor : along.bn_in_op2sbp_parallel()) {
      *(*made_.mutable_bn_in_op2nd_sbp())[tensor.first].add_sbp_parallel() = tensor.second;
    }
  }

 private:
  bool has_input_or_output(const std::string &name, int32_t index) const {
    return call()->descs.count({name, index}) != 0;
  }

  NdSbpSignature hints_, made_, constraints_;
};

/// The list to which SetGetNdSbpSignatureListFn adds signatures.
class GetNdSbpSignatureListContext final : public NdSbpContext {
 public:
  using NdSbpContext::NdSbpContext;
  void AddNdSbpSignature(const NdSbpSignature &signature) { list_.push_back(signature); }
  std::vector<NdSbpSignature> *MutNdSbpSignatureList() { return &list_; }

 private:
  std::vector<NdSbpSignature> list_;
};

/// The argument of SetComputeComplexityFn: the logical call, which has the full tensors.
class ComputeComplexityFnContext final : public OpContext {
 public:
  using OpContext::OpContext;
  const TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Find(name, index);
  }
  const Shape &Shape4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Get(name, index)->shape();
  }
  DataType Dtype4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Get(name, index)->data_type();
  }
  bool IsDynamic4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return call()->Get(name, index)->is_dynamic();
  }
  NdSbpSignature GetNdSbpSignature() const {
    NdSbpSignature whole;
    for (const ArgVec *args : {&call()->inputs, &call()->outputs}) {
      for (const auto &arg : *args) {
        (*whole.mutable_bn_in_op2nd_sbp())[GenRepeatedBn(arg.first, arg.second)] = NdSbp({SbpParallel()});
      }
    }
    return whole;
  }
};

/// The properties of an operand that a modify function can set.
class InputArgModifier final {
 public:
  bool is_mutable() const { return is_mutable_; }
  bool requires_grad() const { return requires_grad_; }
  void set_is_mutable(bool value) { is_mutable_ = value; }
  void set_requires_grad(bool value) { requires_grad_ = value; }
  void set_use_header_only(bool) {}

 private:
  bool is_mutable_ = false;
  bool requires_grad_ = true;
};

/// The properties of a result that a modify function can set.
class OutputArgModifier final {
 public:
  void set_is_mutable(bool) {}
  void set_requires_grad(bool) {}
  void set_header_infered_before_compute(bool) {}
  /// The operand whose memory the result may share. Kernels propose such results by SetInplaceProposalFn.
  void set_mutable_inplace_ibn(const std::string &) {}
  void set_const_inplace_ibn(const std::string &) {}
};

using GetInputArgModifier = std::function<InputArgModifier *(const std::string &, int32_t)>;
using GetOutputArgModifier = std::function<OutputArgModifier *(const std::string &, int32_t)>;

/// Ready-made infer functions.
struct TensorDescInferFnUtil {
  /// Every result is like the first operand, all operands being alike.
  static Maybe<void> Unchanged(InferContext *ctx);
  static Maybe<void> UnchangedDataType(InferContext *ctx);
  /// Result i of the same name is like operand i.
  static Maybe<void> InOutCorrespond(InferContext *ctx);
};

/// Ready-made SBP functions.
struct GetSbpFnUtil {
  static Maybe<void> DefaultBroadcastToBroadcast(SbpContext *ctx);
  static Maybe<void> SplitForEachAxis(SbpContext *ctx);
};

/// Ready-made functions of the size of temporary memory.
struct TmpSizeInferFnUtil {
  static size_t ZeroTmpSize(InferContext *) { return 0; }
};

/// Ready-made checks of attributes.
struct CheckAttrFnUtil {
  static Maybe<void> NoCheck(const UserOpDefWrapper &, const UserOpConfWrapper &) { return Maybe<void>::Ok(); }
};

}  // namespace user_op
}  // namespace oneflow
