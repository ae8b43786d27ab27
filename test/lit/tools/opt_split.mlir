// RUN: not oneflow-opt %s --split-input-file 2>&1 | FileCheck %s

// CHECK: opt_split.mlir:15:8: error: unknown operator oneflow.rely; did you mean oneflow.relu?
// CHECK: func.func @first
// CHECK: // -----
// CHECK: func.func @third
func.func @first(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @second(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.rely"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @third(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
