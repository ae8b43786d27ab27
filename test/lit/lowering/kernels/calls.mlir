// RUN: oneflow-opt %s --stage kernels | FileCheck %s
// RUN: oneflow-opt %s --stage llvm | FileCheck %s --check-prefix=LLVM

// A plan only calls kernels: calls of functions with bodies are inlined, within callees too.
// LLVM: llvm.func internal @oneflow_plan_outer
// LLVM-NOT: llvm.call @oneflow_plan_
// LLVM: llvm.call @inner_kernel_0_launch
func.func private @identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @middle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @identity(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// CHECK-LABEL: func.func @outer
// CHECK-NEXT: %[[EMPTY:.*]] = tensor.empty
// CHECK-NEXT: %[[RESULT:.*]] = call @{{.*}}_kernel_0(%arg0, %[[EMPTY]])
// CHECK-NEXT: return %[[RESULT]]
func.func @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @middle(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
