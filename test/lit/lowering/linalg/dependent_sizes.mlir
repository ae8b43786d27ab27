// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize --cse | FileCheck %s
// RUN: oneflow-opt %s --stage=kernels | FileCheck %s --check-prefix=KERNELS
// RUN: oneflow-opt %s --stage=llvm | FileCheck %s --check-prefix=LLVM

// A value that is recomputed behind depend is not merged with the earlier value, and is computed after the second
// operand of depend; in memory the result of depend is the first operand.

// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.*]] = linalg.generic
// CHECK: math.exp
// CHECK: %[[B:.*]] = linalg.generic {{.*}} ins(%[[A]]
// CHECK: %[[X:.*]] = builtin.unrealized_conversion_cast %arg0, %[[B]] : tensor<64xf32>, tensor<64xf32> to tensor<64xf32>
// CHECK: linalg.generic {{.*}} ins(%[[X]]
// CHECK: math.exp

// KERNELS-LABEL: func.func @main(
// KERNELS: %[[B:.*]] = call @main_kernel_0(%arg0
// KERNELS: %[[X:.*]] = builtin.unrealized_conversion_cast %arg0, %[[B]]
// KERNELS: call @main_kernel_1(%[[X]]

// LLVM-LABEL: llvm.func internal @oneflow_plan_main(
// LLVM-SAME: %[[X:arg[0-9]+]]: !llvm.ptr
// LLVM: llvm.call @main_kernel_1_launch(%[[X]],
func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a = "oneflow.exp"(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = "oneflow.tanh"(%a) : (tensor<64xf32>) -> tensor<64xf32>
  %d = "oneflow.depend"(%x, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %c = "oneflow.exp"(%d) : (tensor<64xf32>) -> tensor<64xf32>
  return %b, %c : tensor<64xf32>, tensor<64xf32>
}
