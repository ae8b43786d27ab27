// A number whose type is known when a program runs: Scalar.
#pragma once
#include <complex>
#include <cstdint>
#include <type_traits>

#include "oneflow/core/common/maybe.h"
#include "oneflow/core/common/util.h"

namespace oneflow {

/// A bool, a signed or unsigned integer, a floating-point or a complex number. Arithmetic uses the widest operand's
/// kind: complex, then floating, then integers of 64 bits.
class Scalar final {
 public:
  Scalar() : Scalar(int32_t{0}) {}

  template <typename T, typename std::enable_if<std::is_same<T, bool>::value, int>::type = 0>
  OF_DEVICE_FUNC Scalar(T value) : kind_(kBoolean), signed_(value), real_(0), imaginary_(0) {}
  template <typename T, typename std::enable_if<std::is_integral<T>::value && std::is_signed<T>::value, int>::type = 0>
  OF_DEVICE_FUNC Scalar(T value) : kind_(kSigned), signed_(value), real_(0), imaginary_(0) {}
  template <typename T, typename std::enable_if<std::is_integral<T>::value && std::is_unsigned<T>::value &&
                                                    !std::is_same<T, bool>::value,
                                                int>::type = 0>
  OF_DEVICE_FUNC Scalar(T value) : kind_(kUnsigned), signed_(static_cast<int64_t>(value)), real_(0), imaginary_(0) {}
  template <typename T, typename std::enable_if<std::is_floating_point<T>::value, int>::type = 0>
  OF_DEVICE_FUNC Scalar(T value) : kind_(kFloating), signed_(0), real_(value), imaginary_(0) {}
  template <typename T>
  Scalar(const std::complex<T> &value) : kind_(kComplex), signed_(0), real_(value.real()), imaginary_(value.imag()) {}

  bool IsBool() const { return kind_ == kBoolean; }
  bool IsIntegral() const { return kind_ == kSigned || kind_ == kUnsigned; }
  bool IsFloatingPoint() const { return kind_ == kFloating; }
  bool IsSigned() const { return kind_ == kSigned || kind_ == kFloating; }
  bool IsUnsigned() const { return kind_ == kUnsigned; }
  bool IsComplex() const { return kind_ == kComplex; }

  /// The number as a T; a complex number has no such value.
  template <typename T, typename std::enable_if<std::is_scalar<T>::value, int>::type = 0>
  OF_DEVICE_FUNC T As() const {
#ifndef __CUDA_ARCH__
    if (kind_ == kComplex) detail::Refuse(Error("expected a real number, got a complex one"));
#endif
    if (kind_ == kFloating) return static_cast<T>(real_);
    return kind_ == kUnsigned ? static_cast<T>(static_cast<uint64_t>(signed_)) : static_cast<T>(signed_);
  }
  template <typename T, typename std::enable_if<std::is_scalar<T>::value, int>::type = 0>
  OF_DEVICE_FUNC T Value() const {
    return As<T>();
  }
  /// The number as a complex T.
  template <typename T, typename Part = typename T::value_type,
            typename std::enable_if<std::is_same<T, std::complex<Part>>::value, int>::type = 0>
  T Value() const {
    if (IsComplex()) return T(static_cast<Part>(real_), static_cast<Part>(imaginary_));
    return T(As<Part>(), Part(0));
  }

  Scalar operator+(const Scalar &other) const { return Combine(other, Add()); }
  Scalar operator-(const Scalar &other) const { return Combine(other, Subtract()); }
  Scalar operator*(const Scalar &other) const { return Combine(other, Multiply()); }
  /// The quotient of integers is rounded towards zero.
  Scalar operator/(const Scalar &other) const {
    const bool exact = IsComplex() || IsFloatingPoint() || other.IsComplex() || other.IsFloatingPoint();
    if (!exact && other.As<int64_t>() == 0) detail::Refuse(Error("expected a divisor other than 0 of an integer"));
    return Combine(other, Divide());
  }
  Scalar &operator+=(const Scalar &other) { return *this = *this + other; }
  Scalar &operator-=(const Scalar &other) { return *this = *this - other; }
  Scalar &operator*=(const Scalar &other) { return *this = *this * other; }
  Scalar &operator/=(const Scalar &other) { return *this = *this / other; }

 private:
  enum Kind { kBoolean, kSigned, kUnsigned, kFloating, kComplex };

  // Integers wrap, as in tensors.
  struct Add {
    int64_t operator()(int64_t a, int64_t b) const { return int64_t(uint64_t(a) + uint64_t(b)); }
    template <typename T>
    T operator()(const T &a, const T &b) const {
      return a + b;
    }
  };
  struct Subtract {
    int64_t operator()(int64_t a, int64_t b) const { return int64_t(uint64_t(a) - uint64_t(b)); }
    template <typename T>
    T operator()(const T &a, const T &b) const {
      return a - b;
    }
  };
  struct Multiply {
    int64_t operator()(int64_t a, int64_t b) const { return int64_t(uint64_t(a) * uint64_t(b)); }
    template <typename T>
    T operator()(const T &a, const T &b) const {
      return a * b;
    }
  };
  struct Divide {
    int64_t operator()(int64_t a, int64_t b) const { return b == -1 ? int64_t(-uint64_t(a)) : a / b; }
    template <typename T>
    T operator()(const T &a, const T &b) const {
      return a / b;
    }
  };

  template <typename F>
  Scalar Combine(const Scalar &other, F op) const {
    if (IsComplex() || other.IsComplex()) {
      return Scalar(op(Value<std::complex<double>>(), other.Value<std::complex<double>>()));
    }
    if (IsFloatingPoint() || other.IsFloatingPoint()) return Scalar(op(As<double>(), other.As<double>()));
    return Scalar(op(As<int64_t>(), other.As<int64_t>()));
  }

  Kind kind_;
  int64_t signed_;
  double real_;
  double imaginary_;
};

}  // namespace oneflow
