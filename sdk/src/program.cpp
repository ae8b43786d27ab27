#include "program.h"

#include "json.h"

namespace oneflow {
namespace one {

OpExpr::~OpExpr() = default;
AutoGradCaptureState::~AutoGradCaptureState() = default;
OpExprGradFunctionIf::~OpExprGradFunctionIf() = default;

GradFunctionRegistration::GradFunctionRegistration(const std::string &op, const Create &create, const char *file,
                                                   int line) {
  user_op::Registry::Instance().Add(
      user_op::GradFunctionEntry{op, std::string(file) + ":" + std::to_string(line), create});
}

namespace {

thread_local Program *current = nullptr;

std::string Ids(const TensorTuple &tensors, size_t begin, size_t end) {
  std::vector<std::string> ids;
  for (size_t i = begin; i < end; ++i) {
    if (tensors[i]) ids.push_back(std::to_string(tensors[i]->id()));
  }
  return json::List(ids);
}

std::string Request(const UserOpExpr &op, const TensorTuple &inputs, const AttrMap &attrs) {
  std::vector<std::pair<std::string, std::string>> named, outputs, values;
  size_t next = 0;
  for (const auto &input : op.inputs()) {
    const bool is_last = &input == &op.inputs().back();
    const size_t end = is_last ? inputs.size() : std::min(inputs.size(), next + static_cast<size_t>(input.second));
    named.emplace_back(input.first, Ids(inputs, next, end));
    next = end;
  }
  if (next != inputs.size()) {
    throw CheckError(op.op_type_name() + " takes " + std::to_string(next) + " tensors, got " +
                     std::to_string(inputs.size()) + "; pass those that its OpBuilder names");
  }
  const ComposedAttrMap composed(attrs, AttrMap(op.proto().attrs));
  for (const auto &attr : composed.values()) {
    values.emplace_back(attr.first, json::Attribute(attr.second));
  }
  for (const auto &output : op.proto().outputs) {
    outputs.emplace_back(output.first, std::to_string(output.second.size()));
  }
  return json::Object({{"op", json::Text(op.op_type_name())},
                       {"inputs", json::Object(named)},
                       {"outputs", json::Object(outputs)},
                       {"attrs", json::Object(values)}});
}

}  // namespace

Program::Program(Build build) : build_(build), outer_(current) { current = this; }
Program::~Program() { current = outer_; }

Program *Program::Current() { return current; }

TensorTuple Program::Add(const std::string &request) {
  has_failed_ = true;
  error_ = "no answer";
  build_(request.c_str());
  if (has_failed_) throw CheckError(error_);
  return results_;
}

void Program::Reply(const char *error, const TensorTuple &results) {
  has_failed_ = error != nullptr;
  error_ = error != nullptr ? error : "";
  results_ = results;
}

namespace detail {

Maybe<TensorTuple> Dispatch(const OpExpr &op, const TensorTuple &inputs, const AttrMap &attrs) {
  const auto *user_op = dynamic_cast<const UserOpExpr *>(&op);
  if (user_op == nullptr) return Error("expected an operation of an OpBuilder, got another OpExpr");
  if (Program::Current() == nullptr) {
    return Error("functions over tensors are called while a program is built: expected a call from a functor or a "
                 "gradient class");
  }
  try {
    return Program::Current()->Add(Request(*user_op, inputs, attrs));
  } catch (const CheckError &error) {
    return Error(error.what());
  }
}

}  // namespace detail

namespace functional {

void FunctionLibrary::Fail(const std::string &name, const std::string &text) const {
  user_op::Registry::Instance().Fail(where_, "the functor of " + name + " cannot be made: " + text);
}

namespace detail {

void AddFunctor(const PackedFunctor &functor) { user_op::Registry::Instance().Add(functor); }

Maybe<TensorTuple> CallFunctor(const std::string &name, const std::vector<Argument> &args) {
  std::string mismatch;
  for (const PackedFunctor *functor : user_op::Registry::Instance().Functors(name, args.size())) {
    try {
      return functor->call(args);
    } catch (const ArgumentError &error) {
      mismatch = error.what();
    }
  }
  return Error("the function " + name + ": " + mismatch);
}

}  // namespace detail
}  // namespace functional
}  // namespace one
}  // namespace oneflow
