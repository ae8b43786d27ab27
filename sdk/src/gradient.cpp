// Runs gradient functions. Tensors of the forward operation are named "forward/..", gradients of the forward results
// "gradient/..", results of an operation "<name of the operation>/..".
#include "infer.h"

namespace oneflow {
namespace user_op {

namespace {

using Args = std::map<std::string, std::vector<std::string>>;

/// `now` if a function calls the only element of `args` by the other name.
std::string NameNow(const Args &args, const std::string &name, const std::string &other, const std::string &now,
                    std::set<std::string> *notes) {
  if (name != other || args.size() != 1 || args.count(now) == 0) return name;
  notes->insert("\"" + other + "\" is taken for \"" + now + "\"");
  return now;
}

}  // namespace

std::string UserOpWrapper::InputName(const std::string &name) const {
  return NameNow(op_conf().inputs, name, "x", "in", &program_->notes);
}

std::string UserOpWrapper::OutputName(const std::string &name) const {
  return NameNow(op_conf().outputs, name, "y", "out", &program_->notes);
}

std::string UserOpWrapper::output_grad(const std::string &name, int32_t index) const {
  output(name, index);
  return "gradient/" + OutputName(name) + "_" + std::to_string(index);
}

bool UserOpWrapper::HasGradTensor4OpOutput(const std::string &name, int32_t index) const {
  output(name, index);
  return IsFloatingDataType(arg_tensor_desc(name, index).data_type());
}

bool UserOpWrapper::NeedGenGradTensor4OpInput(const std::string &name, int32_t index) const {
  input(name, index);
  return IsFloatingDataType(arg_tensor_desc(name, index).data_type());
}

void UserOpWrapper::InputGradBind(const OpArg &operand, const std::function<std::string()> &grad_fn) const {
  if (!NeedGenGradTensor4OpInput(operand.name(), operand.index())) return;
  BindGradTensorWithOpInput(grad_fn(), operand.name(), operand.index());
}

void UserOpWrapper::BindGradTensorWithOpInput(const std::string &tensor, const std::string &name,
                                              int32_t index) const {
  input(name, index);
  program_->bindings[{InputName(name), index}] = tensor;
}

void BackwardOpConfContext::DefineOp(const std::string &op_name, const BuildOpFn &fn) {
  if (!definitions_.emplace(op_name, fn).second) {
    throw CheckError("the operation " + op_name + " is defined twice; call DefineOp once for each name");
  }
}

const UserOpConfWrapper &BackwardOpConfContext::GetOp(const std::string &op_name) {
  const auto built = ops_.find(op_name);
  if (built != ops_.end()) return built->second;
  const auto definition = definitions_.find(op_name);
  if (definition == definitions_.end()) {
    throw CheckError("the operation " + op_name + " is not defined; call DefineOp first");
  }
  if (!underway_.insert(op_name).second) {
    throw CheckError("the operation " + op_name + " is made of itself: making it asks for GetOp(\"" + op_name +
                     "\"); give one of the two another name");
  }
  BackwardOpBuilder builder(op_name);
  const UserOpConfWrapper op = definition->second(builder);
  underway_.erase(op_name);
  program_->ops.push_back(op);
  return ops_.emplace(op_name, op).first->second;
}

BackwardProgram Gradient(const OpRegistryResult &op, OpCall *call) {
  const OpGradRegistryResult *grad = Registry::Instance().Gradient(op.signature.name);
  if (grad == nullptr) throw CheckError("no gradient of " + op.signature.name + " is registered");
  BackwardProgram program;
  const std::string what = "the gradient function (" + grad->where + ") failed";
  Require(Attempt([&] {
            if (grad->bw_gen_fn) {
              BackwardOpConfContext ctx(call, &program);
              return grad->bw_gen_fn(&ctx);
            }
            const UserOpWrapper forward(call, &program);
            return grad->gen_bw_fn(forward, [&](const UserOpConfWrapper &made) { program.ops.push_back(made); });
          }),
          what);
  return program;
}

}  // namespace user_op
}  // namespace oneflow
