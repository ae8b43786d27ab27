// Functions over tensors by name: ONEFLOW_FUNCTION_LIBRARY and `m.add_functor<Functor>("Name")`.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "oneflow/core/framework/op_interpreter/op_interpreter_util.h"
#include "oneflow/core/framework/registration.h"
#include "oneflow/core/functional/function_argument.h"

namespace oneflow {
namespace one {
namespace functional {

/// A functor that takes any arguments.
struct PackedFunctor {
  std::string name;
  std::string where;
  size_t arity;
  std::function<Maybe<TensorTuple>(const std::vector<Argument> &)> call;
};

namespace detail {

template <size_t... kIndices>
struct Sequence {};
template <size_t kCount, size_t... kRest>
struct MakeSequence : MakeSequence<kCount - 1, kCount - 1, kRest...> {};
template <size_t... kIndices>
struct MakeSequence<0, kIndices...> {
  using type = Sequence<kIndices...>;
};

inline Maybe<TensorTuple> AsTuple(const Maybe<TensorTuple> &results) { return results; }
inline Maybe<TensorTuple> AsTuple(const Maybe<Tensor> &result) {
  return std::make_shared<TensorTuple>(std::initializer_list<std::shared_ptr<Tensor>>{JUST(result)});
}

inline Maybe<TensorTuple> AsTuple(const Maybe<void> &result) {
  JUST(result);
  return std::make_shared<TensorTuple>();
}

/// Calls a functor with unpacked arguments.
template <typename F>
struct Packer;

template <typename F, typename R, typename... Args>
struct Packer<R (F::*)(Args...) const> {
  static PackedFunctor Pack(const std::shared_ptr<F> &functor, const std::string &name, const std::string &where) {
    return PackedFunctor{name, where, sizeof...(Args), [functor](const std::vector<Argument> &args) {
                           return Call(*functor, args, typename MakeSequence<sizeof...(Args)>::type());
                         }};
  }

 private:
  template <size_t... kIndices>
  static Maybe<TensorTuple> Call(const F &functor, const std::vector<Argument> &args, Sequence<kIndices...>) {
    return AsTuple(functor(args[kIndices].template As<typename std::decay<Args>::type>()...));
  }
};

/// Adds functors of one library to the registry of the process.
void AddFunctor(const PackedFunctor &functor);
/// Calls a registered functor.
Maybe<TensorTuple> CallFunctor(const std::string &name, const std::vector<Argument> &args);

}  // namespace detail

/// The argument of a library's block.
class FunctionLibrary final {
 public:
  FunctionLibrary(const char *file, int line) : where_(std::string(file) + ":" + std::to_string(line)) {}

  /// Registers functors of these classes, whose operator() have different parameters, under one name.
  template <typename... Functors>
  void add_functor(const std::string &name) {
    const int all[] = {(AddOne<Functors>(name), 0)...};
    static_cast<void>(all);
  }

 private:
  template <typename F>
  void AddOne(const std::string &name) {
    try {
      detail::AddFunctor(detail::Packer<decltype(&F::operator())>::Pack(std::make_shared<F>(), name, where_));
    } catch (const std::exception &error) {
      Fail(name, error.what());
    }
  }
  void Fail(const std::string &name, const std::string &text) const;

  std::string where_;
};

/// Runs a library's block when the library is loaded.
class FunctionLibraryRegistration final {
 public:
  FunctionLibraryRegistration(void (*block)(FunctionLibrary &), const char *file, int line) {
    FunctionLibrary library(file, line);
    block(library);
  }
};

namespace detail {

/// The number of tensors of an argument.
inline int32_t TensorCount(const std::shared_ptr<Tensor> &tensor) { return tensor == nullptr ? 0 : 1; }
inline int32_t TensorCount(const Optional<Tensor> &tensor) { return tensor.has_value() ? 1 : 0; }
inline int32_t TensorCount(const TensorTuple &tensors) { return static_cast<int32_t>(tensors.size()); }

inline void AddTensors(const std::shared_ptr<Tensor> &tensor, TensorTuple *all) { all->push_back(tensor); }
inline void AddTensors(const Optional<Tensor> &tensor, TensorTuple *all) {
  if (tensor.has_value()) all->push_back(tensor.Value());
}
inline void AddTensors(const TensorTuple &tensors, TensorTuple *all) {
  all->insert(all->end(), tensors.begin(), tensors.end());
}

/// The tensors of several arguments, one after the other.
template <typename... Args>
TensorTuple Tensors(const Args &...args) {
  TensorTuple all;
  const int each[] = {0, (AddTensors(args, &all), 0)...};
  static_cast<void>(each);
  return all;
}

}  // namespace detail

/// The results of the function `name`; T is Tensor, TensorTuple, or void.
template <typename T, typename... Args>
Maybe<T> Call(const std::string &name, const Args &...args) {
  return one::detail::ResultAs<T>::Get(detail::CallFunctor(name, std::vector<Argument>{Argument::Of(args)...}));
}

}  // namespace functional
}  // namespace one
}  // namespace oneflow

#define ONEFLOW_FUNCTION_LIBRARY_(m, id)                                                                \
  static void OF_PP_CAT(oneflow_functions_, id)(::oneflow::one::functional::FunctionLibrary & m);       \
  static const ::oneflow::one::functional::FunctionLibraryRegistration OF_PP_CAT(oneflow_library_, id)( \
      OF_PP_CAT(oneflow_functions_, id), __FILE__, __LINE__);                                           \
  static void OF_PP_CAT(oneflow_functions_, id)(::oneflow::one::functional::FunctionLibrary & m)
/// `ONEFLOW_FUNCTION_LIBRARY(m) { m.add_functor<Functor>("Name"); }`
#define ONEFLOW_FUNCTION_LIBRARY(m) ONEFLOW_FUNCTION_LIBRARY_(m, __COUNTER__)

/// Declares the C++ function of a registered name: `functional::Name(..)`.
#define ONEFLOW_DECLARE_FUNCTIONAL_API(name)                           \
  namespace oneflow {                                                  \
  namespace one {                                                      \
  namespace functional {                                               \
  template <typename... Args>                                          \
  ::oneflow::Maybe<::oneflow::one::Tensor> name(const Args &...args) { \
    return Call<::oneflow::one::Tensor>(#name, args...);               \
  }                                                                    \
  }                                                                    \
  }                                                                    \
  }
