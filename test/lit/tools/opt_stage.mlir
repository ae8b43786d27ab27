// RUN: oneflow-opt %s --stage=oneflow | FileCheck %s --check-prefix=ONEFLOW
// RUN: oneflow-opt %s --stage=linalg | oneflow-opt --pass-pipeline="builtin.module(canonicalize,cse)" | FileCheck %s --check-prefix=LINALG
// RUN: oneflow-opt %s --stage=kernels | FileCheck %s --check-prefix=KERNELS
// RUN: oneflow-opt %s --stage=llvm | FileCheck %s --check-prefix=LLVM

// ONEFLOW: "oneflow.relu"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
// LINALG-NOT: oneflow.relu
// LINALG: linalg.generic
// KERNELS: oneflow.kernel
// LLVM: llvm.func
func.func @f(%x: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
