// Attributes by name, which functions over tensors pass to operators.
#pragma once
#include <map>
#include <string>

#include "oneflow/core/framework/op_definition.h"

namespace oneflow {

/// Values of attributes by name.
class AttrMap {
 public:
  AttrMap() = default;
  explicit AttrMap(const std::map<std::string, AttrValue> &values) : values_(values) {}

  bool Has(const std::string &name) const { return values_.count(name) != 0; }
  size_t size() const { return values_.size(); }
  const std::map<std::string, AttrValue> &values() const { return values_; }

  /// The value of an attribute, or an error if no attribute has the name and the type.
  template <typename T>
  Maybe<T> GetAttr(const std::string &name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return Error() << "there is no attribute named " << name;
    return UnpackAttr<T>(found->second, name, "the call");
  }

 protected:
  std::map<std::string, AttrValue> values_;
};

class MutableAttrMap final : public AttrMap {
 public:
  template <typename T>
  Maybe<void> SetAttr(const std::string &name, const T &value) {
    values_[name] = AttrTraits<T>::Pack(value);
    return Maybe<void>::Ok();
  }
};

/// The attributes of a call, followed by the attributes of the call's operator.
class ComposedAttrMap final : public AttrMap {
 public:
  ComposedAttrMap(const AttrMap &prior, const AttrMap &base) : AttrMap(prior.values()) {
    values_.insert(base.values().begin(), base.values().end());
  }
};

inline AttrMap MakeAttrMapFromUserOpConf(const user_op::OpConf &conf) { return AttrMap(conf.attrs); }

}  // namespace oneflow
