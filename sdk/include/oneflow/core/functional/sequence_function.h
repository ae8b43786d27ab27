// Functions one after another: `sequence_function(functional::Mul).then(..).then_if(condition, ..).call(x, y)`.
#pragma once
#include <functional>
#include <utility>

#include "oneflow/core/common/maybe.h"

namespace oneflow {
namespace one {
namespace functional {

template <typename T>
class SequenceFunction;

template <typename R, typename... Args>
class SequenceFunction<R(Args...)> final {
 public:
  /// Appends a function, whose argument is the result of the previous function.
  using Next = std::function<R(const decltype(std::declval<R>().Value()) &)>;

  explicit SequenceFunction(std::function<R(Args...)> first) : call_(std::move(first)) {}

  SequenceFunction &then(const Next &next) {
    const std::function<R(Args...)> before = std::move(call_);
    call_ = [before, next](Args... args) -> R { return next(JUST(before(std::forward<Args>(args)...))); };
    return *this;
  }
  SequenceFunction &then_if(bool condition, const Next &next) { return condition ? then(next) : *this; }
  SequenceFunction &operator<<(const Next &next) { return then(next); }

  R call(Args... args) const { return call_(std::forward<Args>(args)...); }

 private:
  std::function<R(Args...)> call_;
};

#define sequence_function(f) SequenceFunction<decltype(f)>(f)

}  // namespace functional
}  // namespace one
}  // namespace oneflow
