// A shared value that never changes: Symbol<Device>.
#pragma once
#include <memory>
#include <utility>

namespace oneflow {

/// A value that is shared; equal values are equal symbols.
template <typename T>
class Symbol final {
 public:
  Symbol() = default;
  explicit Symbol(const T &value) : value_(std::make_shared<const T>(value)) {}

  const T *operator->() const { return value_.get(); }
  const T &operator*() const { return *value_; }
  explicit operator bool() const { return value_ != nullptr; }
  bool operator==(const Symbol &other) const {
    return value_ == other.value_ || (value_ && other.value_ && *value_ == *other.value_);
  }
  bool operator!=(const Symbol &other) const { return !(*this == other); }

 private:
  std::shared_ptr<const T> value_;
};

template <typename T>
Symbol<T> SymbolOf(const T &value) {
  return Symbol<T>(value);
}

}  // namespace oneflow
