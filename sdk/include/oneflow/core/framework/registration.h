// The macros that register operators, kernels and gradients when a library is loaded.
#pragma once
#include "oneflow/core/common/util.h"
#include "oneflow/core/framework/user_op_grad_registry.h"
#include "oneflow/core/framework/user_op_kernel_registry.h"
#include "oneflow/core/framework/user_op_registry.h"

/// The version of this SDK, raised with every change of the headers. A library built with another version is refused
/// before any code of the library runs.
#define ONEFLOW_SDK_VERSION 8

namespace oneflow {
namespace user_op {

/// Adds the result of a chain of calls to the registry of the process.
class Registration final {
 public:
  Registration(const OpRegistry &registry);
  Registration(const OpKernelRegistry &registry);
  Registration(const OpGradRegistry &registry);
};

/// An operand that kernels read on the host: every operand on the CPU, no operand on other devices.
struct HostMemoryInput {
  std::string name;
  std::string arg;
  int32_t index;
  std::string where;
};

class HostMemoryInputRegistration final {
 public:
  explicit HostMemoryInputRegistration(const HostMemoryInput &input);
};

// Keeps a variable without references: `used` for the compiler, `retain` for a linker that collects sections.
#if defined(__has_attribute)
#if __has_attribute(retain)
#define ONEFLOW_KEPT_ __attribute__((used, retain))
#endif
#endif
#ifndef ONEFLOW_KEPT_
#define ONEFLOW_KEPT_ __attribute__((used))
#endif

/// The version in a library's file.
ONEFLOW_KEPT_ static const char kSdkVersionMark[] =
    "oneflow-sdk-version=" OF_PP_STRINGIZE(ONEFLOW_SDK_VERSION) ";";

}  // namespace user_op
}  // namespace oneflow

#define ONEFLOW_REGISTER_(Registry, name)                                                       \
  static const ::oneflow::user_op::Registration OF_PP_CAT(oneflow_registration_, __COUNTER__) = \
      ::oneflow::user_op::Registry(name, __FILE__, __LINE__)

#define REGISTER_USER_OP(name) ONEFLOW_REGISTER_(OpRegistry, name)
#define REGISTER_CPU_ONLY_USER_OP(name) REGISTER_USER_OP(name).SupportCpuOnly()
#define REGISTER_NO_GRAD_USER_OP(name) REGISTER_USER_OP(name).NoGrad()
#define REGISTER_NO_GRAD_CPU_ONLY_USER_OP(name) REGISTER_NO_GRAD_USER_OP(name).SupportCpuOnly()
#define REGISTER_USER_KERNEL(name) ONEFLOW_REGISTER_(OpKernelRegistry, name)
#define REGISTER_OP_HOST_MEMORY_INPUT(name, arg, index)                                                           \
  static const ::oneflow::user_op::HostMemoryInputRegistration OF_PP_CAT(oneflow_host_input_, __COUNTER__)(       \
      ::oneflow::user_op::HostMemoryInput{name, arg, index, __FILE__ ":" OF_PP_STRINGIZE(__LINE__)})
#define REGISTER_USER_OP_GRAD(name) ONEFLOW_REGISTER_(OpGradRegistry, name)
