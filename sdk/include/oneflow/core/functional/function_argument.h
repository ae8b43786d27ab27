// Arguments of functions over tensors: tensors, numbers, strings, shapes, data types, lists, or none.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "oneflow/core/common/scalar.h"
#include "oneflow/core/framework/attr_value.h"
#include "oneflow/core/framework/device.h"
#include "oneflow/core/framework/random_generator.h"
#include "oneflow/core/framework/tensor.h"

namespace oneflow {

/// A value that may be missing.
template <typename T>
class Optional final {
 public:
  using Held = typename Maybe<T>::Held;
  Optional() : has_value_(false), value_() {}
  Optional(const Held &value) : has_value_(true), value_(value) {}

  bool has_value() const { return has_value_; }
  explicit operator bool() const { return has_value_; }
  /// The value for JUST, or an error if there is no value.
  bool IsOk() const { return has_value_; }
  Error error() const { return Error("the optional argument is missing"); }
  Held Value() const { return value_; }
  Held value_or(const Held &other) const { return has_value_ ? value_ : other; }
  Maybe<T> value() const {
    if (!has_value_) return error();
    return value_;
  }

 private:
  bool has_value_;
  Held value_;
};

namespace one {
namespace functional {

/// An argument of a type that a functor does not take.
class ArgumentError final : public CheckError {
 public:
  using CheckError::CheckError;
};

/// One argument.
class Argument final {
 public:
  Argument() = default;

  static Argument Of(const std::shared_ptr<Tensor> &tensor) {
    Argument made;
    made.is_none_ = tensor == nullptr;
    made.tensors_.push_back(tensor);
    return made;
  }
  static Argument Of(const TensorTuple &tensors) {
    Argument made;
    made.is_none_ = false;
    made.tensors_ = tensors;
    return made;
  }
  static Argument Of(const AttrValue &value) {
    Argument made;
    made.is_none_ = false;
    made.value_ = value;
    return made;
  }
  static Argument Of(const Scalar &value) {
    return value.IsIntegral() || value.IsBool() ? Of(AttrTraits<int64_t>::Pack(value.As<int64_t>()))
                                                : Of(AttrTraits<double>::Pack(value.As<double>()));
  }
  template <typename T>
  static Argument Of(const Optional<T> &value) {
    return value.has_value() ? Of(value.value().Value()) : Argument();
  }
  template <typename T>
  static Argument Of(const std::shared_ptr<T> &value) {
    return value ? Of(*value) : Argument();
  }
  static Argument Of(const Symbol<Device> &value) { return Of(value->ToString().c_str()); }
  static Argument Of(const Generator &value) {
    return Of(AttrTraits<int64_t>::Pack(static_cast<int64_t>(value.current_seed())));
  }
  static Argument Of(const std::vector<double> &values) { return Of(AttrValue{kAtListFloat, {}, values, {}, {}}); }
  static Argument Of(const std::vector<bool> &values) {
    return Of(AttrValue{kAtListInt64, std::vector<int64_t>(values.begin(), values.end()), {}, {}, {}});
  }
  static Argument Of(const std::vector<Scalar> &values) {
    bool is_floating = false;
    std::vector<int64_t> ints;
    std::vector<double> floats;
    for (const Scalar &value : values) {
      is_floating = is_floating || value.IsFloatingPoint();
      ints.push_back(value.As<int64_t>());
      floats.push_back(value.As<double>());
    }
    return is_floating ? Of(floats) : Of(AttrTraits<std::vector<int64_t>>::Pack(ints));
  }
  static Argument Of(const char *value) { return Of(AttrTraits<std::string>::Pack(value)); }
  template <typename T, typename Traits = AttrTraits<T>>
  static Argument Of(const T &value) {
    return Of(Traits::Pack(value));
  }

  /// The argument as a functor's parameter of type T.
  template <typename T>
  T As() const {
    try {
      return Convert<T>::From(*this);
    } catch (const CheckError &error) {
      throw ArgumentError(error.what());
    }
  }

 private:
  template <typename T>
  struct Convert;

  bool is_none_ = true;
  TensorTuple tensors_;
  AttrValue value_ = AttrValue{AttrType(), {}, {}, {}, {}};
};

/// Attributes. Integers are taken for floating-point numbers, too.
template <typename T>
struct Argument::Convert {
  static T From(const Argument &arg) {
    AttrValue value = arg.value_;
    const AttrType type = AttrTraits<T>::Type();
    const bool is_list = type == kAtShape || type >= kAtListInt32;
    const bool is_floating = type == kAtFloat || type == kAtDouble || type == kAtListFloat;
    if (is_floating && value.floats.empty()) value.floats.assign(value.ints.begin(), value.ints.end());
    const size_t size = is_floating         ? value.floats.size()
                        : type == kAtString ? value.texts.size()
                                            : value.ints.size();
    if (arg.is_none_ || !(is_list || size == 1)) {
      oneflow::detail::Refuse(Error() << "expected an argument of the kind " << AttrTypeName(type));
    }
    return AttrTraits<T>::Unpack(value);
  }
};

template <>
struct Argument::Convert<std::shared_ptr<Tensor>> {
  static std::shared_ptr<Tensor> From(const Argument &arg) {
    if (arg.tensors_.size() != 1 || !arg.tensors_.front()) oneflow::detail::Refuse(Error("expected a tensor"));
    return arg.tensors_.front();
  }
};

template <>
struct Argument::Convert<TensorTuple> {
  static TensorTuple From(const Argument &arg) { return arg.tensors_; }
};

template <>
struct Argument::Convert<Scalar> {
  static Scalar From(const Argument &arg) {
    if (!arg.value_.floats.empty()) return Scalar(arg.value_.floats.front());
    if (arg.value_.ints.empty()) oneflow::detail::Refuse(Error("expected a number"));
    return Scalar(arg.value_.ints.front());
  }
};

/// Lists of number types that attributes do not have.
template <>
struct Argument::Convert<std::vector<Scalar>> {
  static std::vector<Scalar> From(const Argument &arg) {
    const AttrValue &value = arg.value_;
    if (arg.is_none_ || !arg.tensors_.empty() || !value.texts.empty()) {
      oneflow::detail::Refuse(Error("expected a list of numbers"));
    }
    if (value.floats.empty()) return std::vector<Scalar>(value.ints.begin(), value.ints.end());
    return std::vector<Scalar>(value.floats.begin(), value.floats.end());
  }
};

template <>
struct Argument::Convert<std::vector<double>> {
  static std::vector<double> From(const Argument &arg) {
    std::vector<double> numbers;
    for (const Scalar &number : Convert<std::vector<Scalar>>::From(arg)) numbers.push_back(number.As<double>());
    return numbers;
  }
};

template <>
struct Argument::Convert<std::vector<bool>> {
  static std::vector<bool> From(const Argument &arg) {
    std::vector<bool> values;
    for (const Scalar &value : Convert<std::vector<Scalar>>::From(arg)) values.push_back(value.As<int64_t>() != 0);
    return values;
  }
};

template <>
struct Argument::Convert<Symbol<Device>> {
  static Symbol<Device> From(const Argument &arg) {
    return CHECK_JUST(Device::ParseAndNew(Convert<std::string>::From(arg)));
  }
};

template <>
struct Argument::Convert<Generator> {
  static Generator From(const Argument &arg) {
    return Generator(static_cast<uint64_t>(Convert<int64_t>::From(arg)));
  }
};

template <>
struct Argument::Convert<std::shared_ptr<Generator>> {
  static std::shared_ptr<Generator> From(const Argument &arg) {
    return std::make_shared<Generator>(Convert<Generator>::From(arg));
  }
};

template <typename T>
struct Argument::Convert<Optional<T>> {
  static Optional<T> From(const Argument &arg) {
    if (arg.is_none_) return Optional<T>();
    return Wrap(arg, std::is_same<T, Tensor>());
  }

 private:
  static Optional<T> Wrap(const Argument &arg, std::true_type) {
    return Optional<T>(Convert<std::shared_ptr<Tensor>>::From(arg));
  }
  static Optional<T> Wrap(const Argument &arg, std::false_type) {
    return WrapValue(Convert<T>::From(arg), IsHeldItself<T>());
  }
  static Optional<T> WrapValue(const T &value, std::true_type) { return Optional<T>(value); }
  static Optional<T> WrapValue(const T &value, std::false_type) { return Optional<T>(std::make_shared<T>(value)); }
};

}  // namespace functional
}  // namespace one
}  // namespace oneflow
