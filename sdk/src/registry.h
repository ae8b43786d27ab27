// The registry of the process: operators, kernels and gradients that libraries have registered.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "oneflow/core/framework/registration.h"

namespace oneflow {
namespace user_op {

class Registry final {
 public:
  static Registry &Instance();

  /// Loads a library; the operators it has registered, in order.
  ///
  /// Throws CheckError where it cannot be loaded or a registration is wrong; nothing of it stays then.
  std::vector<const OpRegistryResult *> Open(const std::string &path);

  /// Forgets what the last library has registered, and closes it.
  void Discard();

  void Add(const OpRegistryResult &op);
  void Add(const OpKernelRegistryResult &kernel);
  void Add(const OpGradRegistryResult &grad);
  /// Notes an error of the registration that is under way.
  void Fail(const std::string &where, const std::string &text);

  /// An operator. Throws CheckError if there is none of this name.
  const OpRegistryResult &Operator(const std::string &name) const;
  /// The kernels of an operator in the order of their registration.
  std::vector<const OpKernelRegistryResult *> Kernels(const std::string &name) const;
  const OpGradRegistryResult *Gradient(const std::string &name) const;

 private:
  void CheckComplete();
  template <typename Table>
  void CheckOwner(const Table &table, size_t first, const std::string &what);

  std::deque<OpRegistryResult> ops_;
  std::deque<OpKernelRegistryResult> kernels_;
  std::deque<OpGradRegistryResult> grads_;
  std::vector<std::string> errors_;
  void *handle_ = nullptr;
  size_t first_op_ = 0, first_kernel_ = 0, first_grad_ = 0;
};

}  // namespace user_op
}  // namespace oneflow
