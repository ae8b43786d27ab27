// Signatures, operations and calls, as passed to the functions of an operator.
#include "oneflow/core/framework/op_call.h"

namespace oneflow {

CheckError::CheckError(const std::string &text) : std::runtime_error(text) {}
CheckError::~CheckError() = default;

std::string AttrTypeName(AttrType type) {
  static const char *const kNames[] = {"?",          "int32",      "int64",          "bool",       "float",
                                       "double",     "string",     "shape",          "data_type",  "list_int32",
                                       "list_int64", "list_float", "list_data_type", "list_shape", "list_string"};
  return type >= kAtInt32 && type <= kAtListString ? kNames[type] : "?";
}

namespace user_op {

namespace {

using Tensors = std::map<std::string, std::vector<std::string>>;

template <typename Parts>
auto FindPart(const Parts &parts, const std::string &name) -> decltype(&parts[0]) {
  for (const auto &part : parts) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

/// An attribute of a signature.
const AttrDef &AttrOf(const OpSignature &signature, const std::string &name) {
  const AttrDef *found = FindPart(signature.attrs, name);
  if (found == nullptr) throw CheckError(signature.name + " has no attribute named " + name);
  return *found;
}

template <typename Map>
std::string Names(const Map &map) {
  std::string text;
  for (const auto &entry : map) text += (text.empty() ? "" : ", ") + entry.first;
  return text.empty() ? "none" : text;
}

const std::vector<std::string> &TensorsOf(const Tensors &tensors, const std::string &name, const OpConf &conf,
                                          const char *what) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw CheckError(conf.op_type_name + " has no " + what + " named " + name + "; it has " + Names(tensors));
  }
  return found->second;
}

const std::string &TensorOf(const Tensors &tensors, const std::string &name, int32_t index, const OpConf &conf,
                            const char *what) {
  const std::vector<std::string> &list = TensorsOf(tensors, name, conf, what);
  if (index < 0 || static_cast<size_t>(index) >= list.size()) {
    throw CheckError(conf.op_type_name + ": the " + what + " " + name + " has " + std::to_string(list.size()) +
                     " tensors, number " + std::to_string(index) + " was asked for");
  }
  return list[static_cast<size_t>(index)];
}

}  // namespace

bool UserOpDefWrapper::IsInputArgName(const std::string &name) const {
  return FindPart(signature_->inputs, name) != nullptr;
}

bool UserOpDefWrapper::IsOutputArgName(const std::string &name) const {
  return FindPart(signature_->outputs, name) != nullptr;
}

bool UserOpDefWrapper::IsAttrName(const std::string &name) const {
  return FindPart(signature_->attrs, name) != nullptr;
}

bool UserOpDefWrapper::IsArgOptional(const std::string &name) const {
  const ArgDef *input = FindPart(signature_->inputs, name), *output = FindPart(signature_->outputs, name);
  return (input && input->is_optional) || (output && output->is_optional);
}

AttrType UserOpDefWrapper::GetAttrType(const std::string &name) const {
  return AttrOf(*signature_, name).type;
}

bool UserOpDefWrapper::AttrHasDefaultVal(const std::string &name) const {
  return AttrOf(*signature_, name).has_default;
}

const AttrValue &UserOpDefWrapper::Default(const std::string &name) const {
  const AttrDef &attr = AttrOf(*signature_, name);
  if (!attr.has_default) throw CheckError("the attribute " + name + " of " + signature_->name + " has no default");
  return attr.value;
}

const std::string &UserOpConfWrapper::input(const std::string &name, int32_t index) const {
  return TensorOf(conf_->inputs, name, index, *conf_, "input");
}

const std::string &UserOpConfWrapper::output(const std::string &name, int32_t index) const {
  return TensorOf(conf_->outputs, name, index, *conf_, "output");
}

int32_t UserOpConfWrapper::input_size(const std::string &name) const {
  return static_cast<int32_t>(TensorsOf(conf_->inputs, name, *conf_, "input").size());
}

int32_t UserOpConfWrapper::output_size(const std::string &name) const {
  return static_cast<int32_t>(TensorsOf(conf_->outputs, name, *conf_, "output").size());
}

const AttrValue &UserOpConfWrapper::Attr4Name(const std::string &name) const {
  const auto found = conf_->attrs.find(name);
  if (found == conf_->attrs.end()) {
    throw CheckError(conf_->op_type_name + " has no attribute named " + name + "; it has " + Names(conf_->attrs));
  }
  return found->second;
}

UserOpConfWrapperBuilder &UserOpConfWrapperBuilder::OpTypeName(const std::string &name) {
  conf_.op_type_name = name;
  return *this;
}

UserOpConfWrapperBuilder &UserOpConfWrapperBuilder::InputBind(const std::string &name, const std::string &tensor) {
  conf_.inputs[name].push_back(tensor);
  return *this;
}

UserOpConfWrapperBuilder &UserOpConfWrapperBuilder::Output(const std::string &name, int32_t size) {
  std::vector<std::string> &tensors = conf_.outputs[name];
  for (int32_t i = 0; i < size; ++i) tensors.push_back(conf_.op_name + "/" + name + "_" + std::to_string(i));
  return *this;
}

UserOpConfWrapper UserOpConfWrapperBuilder::Build() const {
  if (conf_.op_type_name.empty()) {
    throw CheckError("the operation " + conf_.op_name + " has no operator; call OpTypeName before Build");
  }
  return UserOpConfWrapper(std::make_shared<const OpConf>(conf_));
}

TensorDesc *OpCall::Find(const std::string &name, int32_t index) {
  const auto found = descs.find({name, index});
  if (found != descs.end()) return &found->second;
  const UserOpDefWrapper def(*signature);
  if (index == 0 && def.IsArgOptional(name)) return nullptr;
  return Get(name, index);
}

TensorDesc *OpCall::Get(const std::string &name, int32_t index) {
  const auto found = descs.find({name, index});
  if (found != descs.end()) return &found->second;
  const bool is_output = conf->outputs.count(name) != 0;
  TensorOf(is_output ? conf->outputs : conf->inputs, name, index, *conf, is_output ? "output" : "input or output");
  throw CheckError(conf->op_type_name + ": nothing is known of " + name + " here");
}

}  // namespace user_op
}  // namespace oneflow
