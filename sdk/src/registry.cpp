#include "registry.h"

#include <dlfcn.h>

#include "probe.h"

namespace oneflow {
namespace user_op {

namespace {

template <typename Table>
auto FindIn(const Table &table, const std::string &name) -> decltype(&table[0]) {
  for (const auto &entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

const OpRegistryResult *FindOp(const std::deque<OpRegistryResult> &ops, const std::string &name) {
  for (const OpRegistryResult &op : ops) {
    if (op.signature.name == name) return &op;
  }
  return nullptr;
}

void *OpenLibrary(const std::string &path) {
  const std::string problem = ProbeLibrary(path);
  if (!problem.empty()) throw CheckError(problem);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw CheckError(dlerror());
  return handle;
}

}  // namespace

Registry &Registry::Instance() {
  static Registry *const instance = new Registry;  // never destroyed: libraries are not unloaded
  return *instance;
}

RegistryMark Registry::Mark() const {
  return RegistryMark{ops_.size(),       kernels_.size(), grads_.size(), grad_functions_.size(),
                      functors_.size(), host_inputs_.size()};
}

std::vector<const OpRegistryResult *> Registry::Open(const std::string &path) {
  errors_.clear();
  handle_ = nullptr;
  mark_ = Mark();
  try {
    handle_ = OpenLibrary(path);
    CheckComplete();
  } catch (...) {
    Discard();
    throw;
  }
  std::vector<const OpRegistryResult *> added;
  for (size_t i = mark_.ops; i < ops_.size(); ++i) added.push_back(&ops_[i]);
  return added;
}

void Registry::Discard() {
  // The code of the functions is in the library, so the library is closed last.
  ops_.resize(mark_.ops, OpRegistryResult());
  kernels_.resize(mark_.kernels, OpKernelRegistryResult());
  grads_.resize(mark_.grads, OpGradRegistryResult());
  grad_functions_.resize(mark_.grad_functions);
  functors_.resize(mark_.functors);
  host_inputs_.resize(mark_.host_inputs);
  if (handle_ != nullptr) dlclose(handle_);
  handle_ = nullptr;
}

template <typename Table>
void Registry::CheckOwner(const Table &table, size_t first, const std::string &what) {
  for (size_t i = first; i < table.size(); ++i) {
    if (FindOp(ops_, table[i].name) != nullptr) continue;
    Fail(table[i].where, what + " of the operator " + table[i].name + ", which is not registered; register it with " +
                             "REGISTER_USER_OP(\"" + table[i].name + "\"), or load the library that does first");
  }
}

void Registry::CheckHostInputs() {
  for (size_t i = mark_.host_inputs; i < host_inputs_.size(); ++i) {
    const HostMemoryInput &input = host_inputs_[i];
    const OpRegistryResult *op = FindOp(ops_, input.name);
    if (op != nullptr && !UserOpDefWrapper(op->signature).IsInputArgName(input.arg)) {
      Fail(input.where, "the operator " + input.name + " has no input named " + input.arg);
    }
  }
}

template <typename Table>
void Registry::CheckDifferentiable(const Table &table, size_t first) {
  for (size_t i = first; i < table.size(); ++i) {
    const OpRegistryResult *op = FindOp(ops_, table[i].name);
    if (op == nullptr || !op->no_grad) continue;
    Fail(table[i].where, "a gradient of the operator " + table[i].name + ", which is registered at " +
                             op->signature.where + " as NoGrad; remove one of the two");
  }
}

void Registry::CheckComplete() {
  CheckOwner(kernels_, mark_.kernels, "a kernel");
  CheckOwner(grads_, mark_.grads, "a gradient");
  CheckOwner(grad_functions_, mark_.grad_functions, "a gradient function");
  CheckOwner(host_inputs_, mark_.host_inputs, "a host input");
  CheckHostInputs();
  CheckDifferentiable(grads_, mark_.grads);
  CheckDifferentiable(grad_functions_, mark_.grad_functions);
  std::string text;
  for (const std::string &error : errors_) text += (text.empty() ? "" : "\n") + error;
  if (!text.empty()) throw CheckError(text);
}

void Registry::Fail(const std::string &where, const std::string &text) { errors_.push_back(where + ": " + text); }

void Registry::Add(const OpRegistryResult &op) {
  const OpSignature &signature = op.signature;
  const OpRegistryResult *taken = FindOp(ops_, signature.name);
  if (taken != nullptr) {
    Fail(signature.where, "the operator " + signature.name + " is registered twice: at " + taken->signature.where +
                              " and at " + signature.where + "; rename one");
  } else if (!op.logical_tensor_desc_infer_fn && !op.physical_tensor_desc_infer_fn) {
    Fail(signature.where, "the operator " + signature.name + " has no infer function; call SetTensorDescInferFn");
  } else if (signature.outputs.empty()) {
    Fail(signature.where, "the operator " + signature.name + " has no output; call Output(\"out\")");
  } else {
    ops_.push_back(op);
  }
}

void Registry::Add(const OpKernelRegistryResult &kernel) {
  if (!kernel.create_fn) {
    Fail(kernel.where, "the kernel of " + kernel.name + " has no class; call SetCreateFn<Kernel>()");
    return;
  }
  kernels_.push_back(kernel);
}

void Registry::Add(const OpGradRegistryResult &grad) {
  const OpGradRegistryResult *taken = FindIn(grads_, grad.name);
  if (taken != nullptr) {
    Fail(grad.where, "the gradient of " + grad.name + " is registered twice: at " + taken->where + " and at " +
                         grad.where + "; remove one");
  } else if (!grad.bw_gen_fn && !grad.gen_bw_fn) {
    Fail(grad.where, "the gradient of " + grad.name + " has no function; call SetBackwardOpConfGenFn");
  } else {
    grads_.push_back(grad);
  }
}

void Registry::Add(const GradFunctionEntry &grad) {
  const GradFunctionEntry *taken = GradFunction(grad.name);
  if (taken != nullptr) {
    Fail(grad.where, "the gradient function of " + grad.name + " is registered twice: at " + taken->where +
                         " and at " + grad.where + "; remove one");
  } else {
    grad_functions_.push_back(grad);
  }
}

void Registry::Add(const one::functional::PackedFunctor &functor) {
  for (size_t i = 0; i < mark_.functors; ++i) {
    if (functors_[i].name != functor.name) continue;
    Fail(functor.where, "the function " + functor.name + " is registered by two libraries: at " + functors_[i].where +
                            " and at " + functor.where + "; rename one");
    return;
  }
  functors_.push_back(functor);
}

void Registry::Add(const HostMemoryInput &input) { host_inputs_.push_back(input); }

void Registry::ExpectOnDevice(const std::string &name) const {
  const HostMemoryInput *input = FindIn(host_inputs_, name);
  if (input == nullptr) return;
  throw CheckError("kernels of a device get every tensor in its memory, also " + input->arg +
                   ", for which REGISTER_OP_HOST_MEMORY_INPUT (" + input->where +
                   ") asks host memory; remove it, and copy the operand in the kernel by cudaMemcpyAsync");
}

const OpRegistryResult &Registry::Operator(const std::string &name) const {
  const OpRegistryResult *op = FindOp(ops_, name);
  if (op == nullptr) throw CheckError("no library has registered the operator " + name);
  return *op;
}

std::vector<const OpKernelRegistryResult *> Registry::Kernels(const std::string &name) const {
  std::vector<const OpKernelRegistryResult *> found;
  for (const OpKernelRegistryResult &kernel : kernels_) {
    if (kernel.name == name) found.push_back(&kernel);
  }
  return found;
}

const OpGradRegistryResult *Registry::Gradient(const std::string &name) const { return FindIn(grads_, name); }

const GradFunctionEntry *Registry::GradFunction(const std::string &name) const {
  return FindIn(grad_functions_, name);
}

std::vector<const one::functional::PackedFunctor *> Registry::Functors(const std::string &name, size_t arity) const {
  std::vector<const one::functional::PackedFunctor *> found;
  std::string others;
  for (const one::functional::PackedFunctor &functor : functors_) {
    if (functor.name != name) continue;
    if (functor.arity == arity) found.push_back(&functor);
    others += (others.empty() ? "" : " or ") + std::to_string(functor.arity);
  }
  if (others.empty()) {
    throw CheckError("no library has registered the function " + name + "; add m.add_functor<..>(\"" + name +
                     "\") to an ONEFLOW_FUNCTION_LIBRARY");
  }
  if (found.empty()) {
    throw CheckError("the function " + name + " takes " + others + " arguments, got " + std::to_string(arity));
  }
  return found;
}

Registration::Registration(const OpRegistry &registry) { Registry::Instance().Add(registry.GetResult()); }
Registration::Registration(const OpKernelRegistry &registry) { Registry::Instance().Add(registry.GetResult()); }
Registration::Registration(const OpGradRegistry &registry) { Registry::Instance().Add(registry.GetResult()); }
HostMemoryInputRegistration::HostMemoryInputRegistration(const HostMemoryInput &input) {
  Registry::Instance().Add(input);
}

}  // namespace user_op
}  // namespace oneflow
