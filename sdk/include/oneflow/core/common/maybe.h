// Results that may be errors, and the macros that make and propagate errors: Error, Maybe<T>, JUST and CHECK.
// A failed CHECK throws CheckError, a failed CHECK_OR_RETURN returns an Error; both end as errors of the operator.
#pragma once
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace oneflow {

/// The exception of a failed CHECK.
class CheckError : public std::runtime_error {
 public:
  explicit CheckError(const std::string &text);
  ~CheckError() override;
};

namespace detail {

template <typename T>
auto Write(std::ostream &out, const T &value, int) -> decltype(out << value, void()) {
  out << value;
}

template <typename T>
void Write(std::ostream &out, const T &, ...) {
  out << "?";
}

inline std::string At(const char *file, int line, const std::string &text) {
  return std::string(file) + ":" + std::to_string(line) + ": " + text;
}

}  // namespace detail

/// An error; `<<` extends the text: `return Error::CheckFailed() << "expected .., got " << x;`.
class Error final {
 public:
  Error() = default;
  explicit Error(std::string text) : text_(std::move(text)) {}

  static Error At(const char *file, int line, const std::string &text) { return Error(detail::At(file, line, text)); }
  static Error CheckFailed() { return Error(); }
  static Error CheckFailedError() { return Error(); }
  static Error RuntimeError() { return Error(); }
  static Error TypeError() { return Error(); }
  static Error IndexError() { return Error(); }
  static Error InvalidValueError() { return Error(); }
  static Error InvalidValueError(const std::string &text) { return Error(text); }
  static Error Unimplemented() { return Error("not implemented: "); }
  static Error UnimplementedError() { return Unimplemented(); }

  template <typename T>
  Error &operator<<(const T &value) {
    std::ostringstream out;
    detail::Write(out, value, 0);
    text_ += out.str();
    return *this;
  }

  /// Adds a location that passed the error to a caller.
  Error &AddFrame(const char *file, int line, const char *text) {
    text_ += "\n  in " + detail::At(file, line, text);
    return *this;
  }

  const std::string &text() const { return text_; }

 private:
  std::string text_;
};

template <typename T>
class Symbol;

/// Whether Maybe holds values of a type directly: scalars and symbols.
template <typename T>
struct IsHeldItself : std::is_scalar<T> {};
template <typename T>
struct IsHeldItself<Symbol<T>> : std::true_type {};

/// A value or an error. Everything but scalars and symbols is held in a shared pointer.
template <typename T>
class Maybe final {
 public:
  using Held = typename std::conditional<IsHeldItself<T>::value, T, std::shared_ptr<T>>::type;

  Maybe(const Error &error) : error_(std::make_shared<Error>(error)), value_() {}
  Maybe(Held value) : value_(std::move(value)) {}
  template <typename U,
            typename std::enable_if<!IsHeldItself<T>::value && std::is_convertible<U *, T *>::value, int>::type = 0>
  Maybe(const std::shared_ptr<U> &value) : value_(value) {}
  template <typename U,
            typename std::enable_if<!IsHeldItself<T>::value && std::is_same<U, T>::value, int>::type = 0>
  Maybe(const U &value) : value_(std::make_shared<U>(value)) {}

  bool IsOk() const { return !error_; }
  explicit operator bool() const { return IsOk(); }
  const Error &error() const { return *error_; }
  Held Value() const { return value_; }

 private:
  std::shared_ptr<Error> error_;
  Held value_;
};

/// A reference or an error.
template <typename T>
class Maybe<T &> final {
 public:
  Maybe(const Error &error) : error_(std::make_shared<Error>(error)), value_(nullptr) {}
  Maybe(T &value) : value_(&value) {}

  bool IsOk() const { return !error_; }
  explicit operator bool() const { return IsOk(); }
  const Error &error() const { return *error_; }
  T &Value() const { return *value_; }

 private:
  std::shared_ptr<Error> error_;
  T *value_;
};

/// Nothing or an error.
template <>
class Maybe<void> final {
 public:
  Maybe(const Error &error) : error_(std::make_shared<Error>(error)) {}
  static Maybe<void> Ok() { return Maybe<void>(); }

  bool IsOk() const { return !error_; }
  explicit operator bool() const { return IsOk(); }
  const Error &error() const { return *error_; }
  void Value() const {}

 private:
  Maybe() = default;
  std::shared_ptr<Error> error_;
};

/// A function that returns Maybe<void>, made of any callable that returns Maybe<void> or void.
template <typename... Args>
class MaybeFn final {
 public:
  MaybeFn() = default;
  template <typename F, typename Result = decltype(std::declval<F &>()(std::declval<Args>()...))>
  MaybeFn(F fn) : call_(Wrap(std::move(fn), std::is_void<Result>())) {}

  Maybe<void> operator()(Args... args) const { return call_(args...); }
  explicit operator bool() const { return static_cast<bool>(call_); }

 private:
  using Call = std::function<Maybe<void>(Args...)>;

  template <typename F>
  static Call Wrap(F fn, std::true_type) {
    return [fn](Args... args) -> Maybe<void> {
      fn(args...);
      return Maybe<void>::Ok();
    };
  }

  template <typename F>
  static Call Wrap(F fn, std::false_type) {
    return fn;
  }

  Call call_;
};

namespace detail {

/// Throws an error that the SDK detects, without a location in the SDK's headers.
[[noreturn]] inline void Refuse(const Error &error) { throw CheckError(error.text()); }

/// `Thrower() & error` throws; `&` binds less tightly than `<<`, so texts are added first.
struct Thrower {
  [[noreturn]] void operator&(const Error &error) const { throw CheckError(error.text()); }
};

template <typename T>
auto Unwrap(const Maybe<T> &maybe, const char *file, int line, const char *text) -> decltype(maybe.Value()) {
  if (!maybe.IsOk()) throw CheckError(Error(maybe.error()).AddFrame(file, line, text).text());
  return maybe.Value();
}

template <typename T>
T NotNull(T &&pointer, const char *file, int line, const char *text) {
  if (pointer == nullptr) throw CheckError(At(file, line, std::string("Check failed: ") + text + " is not null"));
  return std::forward<T>(pointer);
}

}  // namespace detail

}  // namespace oneflow

/// The value of a Maybe; an error is returned to the caller. The value is read outside the block, since a block would
/// copy a reference.
#define JUST(...)                                                                                 \
  __extension__({                                                                                 \
    auto &&oneflow_maybe_ = (__VA_ARGS__);                                                        \
    if (!oneflow_maybe_.IsOk()) {                                                                 \
      return ::oneflow::Error(oneflow_maybe_.error()).AddFrame(__FILE__, __LINE__, #__VA_ARGS__); \
    }                                                                                             \
    oneflow_maybe_;                                                                               \
  }).Value()

/// The older form for calls without a value.
#define OF_RETURN_IF_ERROR(...) JUST(__VA_ARGS__)

/// The value of a Maybe; an error is thrown.
#define CHECK_JUST(...) ::oneflow::detail::Unwrap((__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)

#define ONEFLOW_CHECK_TEXT_(text) ::oneflow::Error::At(__FILE__, __LINE__, "Check failed: " text " ")
#define ONEFLOW_CHECK_(text, ...) \
  (__builtin_expect(!!(__VA_ARGS__), 1)) ? (void)0 : ::oneflow::detail::Thrower() & ONEFLOW_CHECK_TEXT_(text)
// A loop in place of an if: a following else would belong to the if.
#define ONEFLOW_CHECK_OR_RETURN_(text, ...) \
  while (!__builtin_expect(!!(__VA_ARGS__), 1)) return ONEFLOW_CHECK_TEXT_(text)
#define ONEFLOW_CHECK_OP_(a, op, b) ONEFLOW_CHECK_(#a " " #op " " #b, (a)op(b)) << "(" << (a) << " vs " << (b) << ") "
#define ONEFLOW_CHECK_OP_OR_RETURN_(a, op, b) \
  ONEFLOW_CHECK_OR_RETURN_(#a " " #op " " #b, (a)op(b)) << "(" << (a) << " vs " << (b) << ") "

#define CHECK(...) ONEFLOW_CHECK_(#__VA_ARGS__, __VA_ARGS__)
#define CHECK_EQ(a, b) ONEFLOW_CHECK_OP_(a, ==, b)
#define CHECK_NE(a, b) ONEFLOW_CHECK_OP_(a, !=, b)
#define CHECK_LT(a, b) ONEFLOW_CHECK_OP_(a, <, b)
#define CHECK_LE(a, b) ONEFLOW_CHECK_OP_(a, <=, b)
#define CHECK_GT(a, b) ONEFLOW_CHECK_OP_(a, >, b)
#define CHECK_GE(a, b) ONEFLOW_CHECK_OP_(a, >=, b)
#define CHECK_NOTNULL(pointer) ::oneflow::detail::NotNull((pointer), __FILE__, __LINE__, #pointer)

#define CHECK_OR_RETURN(...) ONEFLOW_CHECK_OR_RETURN_(#__VA_ARGS__, __VA_ARGS__)
#define CHECK_EQ_OR_RETURN(a, b) ONEFLOW_CHECK_OP_OR_RETURN_(a, ==, b)
#define CHECK_NE_OR_RETURN(a, b) ONEFLOW_CHECK_OP_OR_RETURN_(a, !=, b)
#define CHECK_LT_OR_RETURN(a, b) ONEFLOW_CHECK_OP_OR_RETURN_(a, <, b)
#define CHECK_LE_OR_RETURN(a, b) ONEFLOW_CHECK_OP_OR_RETURN_(a, <=, b)
#define CHECK_GT_OR_RETURN(a, b) ONEFLOW_CHECK_OP_OR_RETURN_(a, >, b)
#define CHECK_GE_OR_RETURN(a, b) ONEFLOW_CHECK_OP_OR_RETURN_(a, >=, b)
#define CHECK_NOTNULL_OR_RETURN(pointer) ONEFLOW_CHECK_OR_RETURN_(#pointer " is not null", (pointer) != nullptr)
#define CHECK_ISNULL_OR_RETURN(pointer) ONEFLOW_CHECK_OR_RETURN_(#pointer " is null", (pointer) == nullptr)

#define UNIMPLEMENTED() ONEFLOW_CHECK_("implemented", false)
#define UNIMPLEMENTED_THEN_RETURN() return ONEFLOW_CHECK_TEXT_("implemented")
#define OF_UNIMPLEMENTED() UNIMPLEMENTED_THEN_RETURN()
