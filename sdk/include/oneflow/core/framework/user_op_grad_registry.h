// REGISTER_USER_OP_GRAD: the gradient of an operator, written with operators.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oneflow/core/framework/op_call.h"

namespace oneflow {
namespace user_op {

/// The result of a gradient function: operations, the tensor that is the gradient of each operand, and notes for the
/// user.
struct BackwardProgram {
  std::vector<UserOpConfWrapper> ops;
  std::map<std::pair<std::string, int32_t>, std::string> bindings;
  std::set<std::string> notes;
};

/// The operation to differentiate. An only operand `in` may also be called `x`, and an only result `out` also
/// `y`, since OneFlow's documents use both names. The user gets a note.
class UserOpWrapper final : public UserOpConfWrapper {
 public:
  UserOpWrapper(OpCall *call, BackwardProgram *program)
      : UserOpConfWrapper(call->conf), call_(call), program_(program) {}

  const std::string &input(const std::string &name, int32_t index) const {
    return UserOpConfWrapper::input(InputName(name), index);
  }
  const std::string &output(const std::string &name, int32_t index) const {
    return UserOpConfWrapper::output(OutputName(name), index);
  }
  const TensorDesc &arg_tensor_desc(const std::string &name, int32_t index) const {
    return *call_->Get(InputName(OutputName(name)), index);
  }
  const TensorDesc &TensorDesc4ArgNameAndIndex(const std::string &name, int32_t index) const {
    return arg_tensor_desc(name, index);
  }
  /// The tensor that is the gradient of a result.
  std::string output_grad(const std::string &name, int32_t index) const;
  std::string GetGradTensorWithOpOutput(const std::string &name, int32_t index) const {
    return output_grad(name, index);
  }
  bool HasGradTensor4OpOutput(const std::string &name, int32_t index) const;
  bool NeedGenGradTensor4OpInput(const std::string &name, int32_t index) const;

  /// Sets the gradient of an operand: the tensor whose name `grad_fn` returns.
  void InputGradBind(const OpArg &operand, const std::function<std::string()> &grad_fn) const;
  void BindGradTensorWithOpInput(const std::string &tensor, const std::string &name, int32_t index) const;

 private:
  std::string InputName(const std::string &name) const;
  std::string OutputName(const std::string &name) const;

  OpCall *call_;
  BackwardProgram *program_;
};

/// The argument of a gradient function: the forward operation, and operations, each made at the first use.
class BackwardOpConfContext final {
 public:
  using BuildOpFn = std::function<UserOpConfWrapper(BackwardOpBuilder &)>;

  BackwardOpConfContext(OpCall *call, BackwardProgram *program) : fw_op_(call, program), program_(program) {}

  UserOpWrapper &FwOp() { return fw_op_; }
  void DefineOp(const std::string &op_name, const BuildOpFn &fn);
  const UserOpConfWrapper &GetOp(const std::string &op_name);

 private:
  UserOpWrapper fw_op_;
  BackwardProgram *program_;
  std::map<std::string, BuildOpFn> definitions_;
  std::map<std::string, UserOpConfWrapper> ops_;
  /// The operations whose functions are running, to detect recursive operations.
  std::set<std::string> underway_;
};

using BackwardOpConfGenFn = MaybeFn<BackwardOpConfContext *>;
using AddOpFn = std::function<void(const UserOpConfWrapper &)>;
using GenBackwardOpConfFn = MaybeFn<const UserOpWrapper &, const AddOpFn &>;

/// The gradient of an operator: one of the two functions.
struct OpGradRegistryResult {
  std::string name;
  std::string where;
  BackwardOpConfGenFn bw_gen_fn;
  GenBackwardOpConfFn gen_bw_fn;
};

/// Collects a gradient.
class OpGradRegistry final {
 public:
  OpGradRegistry(const std::string &name, const char *file, int line);

  OpGradRegistry &Name(const std::string &name);
  OpGradRegistry &SetBackwardOpConfGenFn(BackwardOpConfGenFn fn);
  OpGradRegistry &SetGenBackwardOpConfFn(GenBackwardOpConfFn fn);

  OpGradRegistry &Finish() { return *this; }
  const OpGradRegistryResult &GetResult() const { return result_; }

 private:
  OpGradRegistryResult result_;
};

}  // namespace user_op
}  // namespace oneflow
