// The registry of the process: operators, kernels and gradients that libraries have registered.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "oneflow/core/framework/op_expr_grad_function.h"
#include "oneflow/core/framework/registration.h"
#include "oneflow/core/functional/function_library.h"

namespace oneflow {
namespace user_op {

/// The class of an operator's gradient.
struct GradFunctionEntry {
  std::string name;
  std::string where;
  one::GradFunctionRegistration::Create create;
};

/// The number of registrations at one time; registrations beyond the number are later ones.
struct RegistryMark {
  size_t ops = 0, kernels = 0, grads = 0, grad_functions = 0, functors = 0, host_inputs = 0;
};

class Registry final {
 public:
  static Registry &Instance();

  /// Loads a library; returns the registered operators in order.
  ///
  /// Throws CheckError if the library cannot be loaded or a registration is wrong; registrations are then undone.
  std::vector<const OpRegistryResult *> Open(const std::string &path);

  /// Removes the registrations of the last library, and closes the library.
  void Discard();

  void Add(const OpRegistryResult &op);
  void Add(const OpKernelRegistryResult &kernel);
  void Add(const OpGradRegistryResult &grad);
  void Add(const GradFunctionEntry &grad);
  void Add(const one::functional::PackedFunctor &functor);
  void Add(const HostMemoryInput &input);
  /// Records an error of the current registration.
  void Fail(const std::string &where, const std::string &text);

  /// An operator. Throws CheckError if no operator has this name.
  const OpRegistryResult &Operator(const std::string &name) const;
  /// The kernels of an operator in the order of their registration.
  std::vector<const OpKernelRegistryResult *> Kernels(const std::string &name) const;
  const OpGradRegistryResult *Gradient(const std::string &name) const;
  const GradFunctionEntry *GradFunction(const std::string &name) const;
  /// Throws CheckError if an operand of an operator has to be in host memory, which device kernels cannot read.
  void ExpectOnDevice(const std::string &name) const;
  /// The functors of a name that take `arity` arguments. Throws CheckError if there are no such functors.
  std::vector<const one::functional::PackedFunctor *> Functors(const std::string &name, size_t arity) const;

 private:
  RegistryMark Mark() const;
  void CheckComplete();
  void CheckHostInputs();
  template <typename Table>
  void CheckDifferentiable(const Table &table, size_t first);
  template <typename Table>
  void CheckOwner(const Table &table, size_t first, const std::string &what);

  std::deque<OpRegistryResult> ops_;
  std::deque<OpKernelRegistryResult> kernels_;
  std::deque<OpGradRegistryResult> grads_;
  std::deque<GradFunctionEntry> grad_functions_;
  std::deque<one::functional::PackedFunctor> functors_;
  std::deque<HostMemoryInput> host_inputs_;
  std::vector<std::string> errors_;
  void *handle_ = nullptr;
  /// The number of registrations before the last library was loaded.
  RegistryMark mark_;
};

}  // namespace user_op
}  // namespace oneflow
