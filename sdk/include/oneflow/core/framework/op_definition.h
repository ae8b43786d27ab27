// The results of registrations: definitions of operators and of parts of operators.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oneflow/core/framework/attr_value.h"

namespace oneflow {
namespace user_op {

/// One operand or result: `least` to `most` tensors, or none if optional; `most` -1 stands for any number.
struct ArgDef {
  std::string name;
  int64_t least;
  int64_t most;
  bool is_optional;
};

/// One attribute; a program has to give the value of an attribute without default.
struct AttrDef {
  std::string name;
  AttrType type;
  bool has_default;
  AttrValue value;
};

/// The names of an operator's parts.
struct OpSignature {
  std::string name;
  std::string where;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
};

/// One operation of a program: which tensors, by name, and which values of attributes.
struct OpConf {
  std::string op_name;
  std::string op_type_name;
  std::map<std::string, std::vector<std::string>> inputs;
  std::map<std::string, std::vector<std::string>> outputs;
  std::map<std::string, AttrValue> attrs;
};

/// Tensor number `index` of the operand or result `name`.
class OpArg final {
 public:
  OpArg(std::string name, int32_t index) : name_(std::move(name)), index_(index) {}
  const std::string &name() const { return name_; }
  int32_t index() const { return index_; }

 private:
  std::string name_;
  int32_t index_;
};

/// An operator's signature, the argument of check functions.
class UserOpDefWrapper final {
 public:
  explicit UserOpDefWrapper(const OpSignature &signature) : signature_(&signature) {}

  const std::string &name() const { return signature_->name; }
  bool IsInputArgName(const std::string &name) const;
  bool IsOutputArgName(const std::string &name) const;
  bool IsAttrName(const std::string &name) const;
  bool IsArgOptional(const std::string &name) const;
  AttrType GetAttrType(const std::string &name) const;
  bool AttrHasDefaultVal(const std::string &name) const;
  template <typename T>
  T GetAttrDefaultVal(const std::string &name) const {
    return UnpackAttr<T>(Default(name), name, signature_->name);
  }

 private:
  const AttrValue &Default(const std::string &name) const;
  const OpSignature *signature_;
};

/// One operation of a program, the argument of functions of the operator.
class UserOpConfWrapper {
 public:
  explicit UserOpConfWrapper(std::shared_ptr<const OpConf> conf) : conf_(std::move(conf)) {}

  const OpConf &op_conf() const { return *conf_; }
  const OpConf &user_op_conf() const { return *conf_; }
  const std::string &op_name() const { return conf_->op_name; }
  const std::string &op_type_name() const { return conf_->op_type_name; }
  /// The name of an operand's or result's tensor, to be given to InputBind.
  const std::string &input(const std::string &name, int32_t index) const;
  const std::string &output(const std::string &name, int32_t index) const;
  bool has_input(const std::string &name, int32_t index) const { return index >= 0 && index < input_size(name); }
  bool has_output(const std::string &name, int32_t index) const { return index >= 0 && index < output_size(name); }
  int32_t input_size(const std::string &name) const;
  int32_t output_size(const std::string &name) const;

  template <typename T>
  T attr(const std::string &name) const {
    return UnpackAttr<T>(Attr4Name(name), name, op_type_name());
  }
  template <typename T>
  T attr_or_default(const std::string &name, const T &value) const {
    return conf_->attrs.count(name) ? attr<T>(name) : value;
  }
  const AttrValue &Attr4Name(const std::string &name) const;

 private:
  std::shared_ptr<const OpConf> conf_;
};

/// Makes one operation: `builder.OpTypeName("mul").InputBind("x", x).Output("y").Attr("axis", axis).Build()`.
class UserOpConfWrapperBuilder final {
 public:
  explicit UserOpConfWrapperBuilder(const std::string &op_name) { conf_.op_name = op_name; }

  UserOpConfWrapperBuilder &OpTypeName(const std::string &name);
  UserOpConfWrapperBuilder &Op(const std::string &name) { return OpTypeName(name); }
  /// Binds the next tensor of an operand; a repeated operand needs one call for each tensor.
  UserOpConfWrapperBuilder &InputBind(const std::string &name, const std::string &tensor);
  UserOpConfWrapperBuilder &Input(const std::string &name, const std::string &tensor) {
    return InputBind(name, tensor);
  }
  UserOpConfWrapperBuilder &Output(const std::string &name, int32_t size = 1);
  template <typename T>
  UserOpConfWrapperBuilder &Attr(const std::string &name, const T &value) {
    conf_.attrs[name] = AttrTraits<typename std::decay<T>::type>::Pack(value);
    return *this;
  }
  /// Strings of characters are strings.
  UserOpConfWrapperBuilder &Attr(const std::string &name, const char *value) {
    return Attr(name, std::string(value));
  }
  UserOpConfWrapperBuilder &ScopeSymbolId(int64_t) { return *this; }
  UserOpConfWrapperBuilder &DeviceTag(const std::string &) { return *this; }
  UserOpConfWrapper Build() const;

 private:
  OpConf conf_;
};

using BackwardOpBuilder = UserOpConfWrapperBuilder;

}  // namespace user_op
}  // namespace oneflow
