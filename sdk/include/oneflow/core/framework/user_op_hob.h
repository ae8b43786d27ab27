// Predicates that choose a kernel, as expressions: `(HobDeviceType() == kCPU) & (HobDataType("out", 0) == kFloat)`.
// Each predicate has a text, so that an error can name the failed part of a kernel's predicate.
#pragma once
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "oneflow/core/framework/op_kernel.h"

namespace oneflow {
namespace user_op {

/// A predicate over a call, with the texts of the condition and of the values of a call.
class HobBool final {
 public:
  using Test = std::function<bool(const KernelRegContext &)>;
  using Explain = std::function<std::string(const KernelRegContext &)>;

  HobBool(bool value) : HobBool([value](const KernelRegContext &) { return value; }, nullptr) {
    explain_ = [value](const KernelRegContext &) { return value ? "true" : "false"; };
  }
  HobBool(Test test, Explain explain) : test_(std::move(test)), explain_(std::move(explain)) {}

  bool operator()(const KernelRegContext &ctx) const { return test_(ctx); }
  /// The reason why the predicate is false (or true) for a call.
  std::string DebugStr(const KernelRegContext &ctx) const { return explain_(ctx); }

  HobBool operator!() const {
    const HobBool a = *this;
    return HobBool([a](const KernelRegContext &ctx) { return !a(ctx); },
                   [a](const KernelRegContext &ctx) { return "not (" + a.DebugStr(ctx) + ")"; });
  }
  HobBool operator&(const HobBool &other) const {
    const HobBool a = *this, b = other;
    return HobBool([a, b](const KernelRegContext &ctx) { return a(ctx) && b(ctx); },
                   [a, b](const KernelRegContext &ctx) {
                     if (a(ctx) == b(ctx)) return a.DebugStr(ctx) + " and " + b.DebugStr(ctx);
                     return a(ctx) ? b.DebugStr(ctx) : a.DebugStr(ctx);
                   });
  }
  HobBool operator|(const HobBool &other) const {
    const HobBool a = *this, b = other;
    return HobBool(
        [a, b](const KernelRegContext &ctx) { return a(ctx) || b(ctx); },
        [a, b](const KernelRegContext &ctx) { return "(" + a.DebugStr(ctx) + " or " + b.DebugStr(ctx) + ")"; });
  }
  HobBool operator&&(const HobBool &other) const { return *this & other; }
  HobBool operator||(const HobBool &other) const { return *this | other; }

 private:
  Test test_;
  Explain explain_;
};

namespace detail {

template <typename T>
std::string HobText(const T &value) {
  std::ostringstream out;
  ::oneflow::detail::Write(out, value, 0);
  return out.str();
}
inline std::string HobText(DataType value) { return DataType_Name(value); }
inline std::string HobText(DeviceType value) { return DeviceTag(value); }
inline std::string HobText(bool value) { return value ? "true" : "false"; }

}  // namespace detail

/// A value of a call that predicates compare with a constant or with another value of the call.
template <typename T>
class Hob final {
 public:
  using Read = std::function<T(const KernelRegContext &)>;

  Hob(std::string name, Read read) : name_(std::move(name)), read_(std::move(read)) {}

  template <typename U>
  HobBool operator==(const U &other) const {
    return Compare("==", Of(other), [](const T &a, const T &b) { return a == b; });
  }
  template <typename U>
  HobBool operator!=(const U &other) const {
    return Compare("!=", Of(other), [](const T &a, const T &b) { return !(a == b); });
  }
  template <typename U>
  HobBool operator<(const U &other) const {
    return Compare("<", Of(other), [](const T &a, const T &b) { return a < b; });
  }
  template <typename U>
  HobBool operator>(const U &other) const {
    return Compare(">", Of(other), [](const T &a, const T &b) { return b < a; });
  }
  template <typename U>
  HobBool operator<=(const U &other) const {
    return Compare("<=", Of(other), [](const T &a, const T &b) { return !(b < a); });
  }
  template <typename U>
  HobBool operator>=(const U &other) const {
    return Compare(">=", Of(other), [](const T &a, const T &b) { return !(a < b); });
  }

 private:
  static Hob Of(const Hob &other) { return other; }
  static Hob Of(const T &value) {
    Hob made(detail::HobText(value), [value](const KernelRegContext &) { return value; });
    made.is_constant_ = true;
    return made;
  }

  HobBool Compare(const std::string &op, const Hob &b, std::function<bool(const T &, const T &)> test) const {
    const Hob a = *this;
    return HobBool([a, b, test](const KernelRegContext &ctx) { return test(a.read_(ctx), b.read_(ctx)); },
                   [a, b, op](const KernelRegContext &ctx) {
                     const std::string found = detail::HobText(a.read_(ctx));
                     const std::string other = b.is_constant_ ? "" : " and " + detail::HobText(b.read_(ctx));
                     return a.name_ + " " + op + " " + b.name_ + " (it is " + found + other + ")";
                   });
  }

  std::string name_;
  Read read_;
  bool is_constant_ = false;
};

inline HobBool HobTrue() { return HobBool(true); }
inline HobBool HobFalse() { return HobBool(false); }

/// The device that the call runs on.
inline Hob<DeviceType> HobDeviceType() {
  return Hob<DeviceType>("device", [](const KernelRegContext &ctx) { return ctx.device_type(); });
}
/// The device's word, "cpu" or "cuda".
inline Hob<std::string> HobDeviceTag() {
  return Hob<std::string>("device",
                          [](const KernelRegContext &ctx) { return std::string(DeviceTag(ctx.device_type())); });
}
/// The attribute `device_sub_tag`, or an empty text.
inline Hob<std::string> HobDeviceSubTag() {
  return Hob<std::string>("device_sub_tag", [](const KernelRegContext &ctx) {
    return ctx.user_op_conf().attr_or_default<std::string>("device_sub_tag", "");
  });
}
/// The element type of a tensor; kInvalidDataType for a missing optional tensor.
inline Hob<DataType> HobDataType(const std::string &name, int32_t index) {
  return Hob<DataType>("data type of " + name + "[" + std::to_string(index) + "]",
                       [name, index](const KernelRegContext &ctx) {
                         const TensorDesc *desc = ctx.TensorDesc4ArgNameAndIndex(name, index);
                         return desc ? desc->data_type() : kInvalidDataType;
                       });
}
/// The number of tensors of an operand.
inline Hob<int32_t> HobInputSize(const std::string &name) {
  return Hob<int32_t>("number of " + name, [name](const KernelRegContext &ctx) { return ctx.input_size(name); });
}
/// The value of an attribute.
template <typename T>
Hob<T> HobAttr(const std::string &name) {
  return Hob<T>("attribute " + name, [name](const KernelRegContext &ctx) { return ctx.Attr<T>(name); });
}
/// An environment variable as a truth value.
inline HobBool HobEnvBool(const std::string &name, bool value) {
  return Hob<bool>("$" + name, [name, value](const KernelRegContext &) {
           const char *text = std::getenv(name.c_str());
           if (text == nullptr) return value;
           const std::string word(text);
           return word == "1" || word == "true" || word == "True" || word == "on" || word == "ON";
         }) == true;
}

}  // namespace user_op

namespace hob {

/// A predicate made of a function.
template <typename F>
user_op::HobBool make_custom(const std::string &text, F test) {
  return user_op::HobBool(user_op::HobBool::Test(test), [text](const user_op::KernelRegContext &) { return text; });
}
template <typename F>
user_op::HobBool make_custom(F test) {
  return make_custom("a custom predicate", test);
}

}  // namespace hob
}  // namespace oneflow
