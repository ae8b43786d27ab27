// RUN: not oneflow-opt %s --stage triton 2>&1 | FileCheck %s

// CHECK: too_large.mlir:4:1: error: @main: expected tensors of at most 9223372036854775807 bytes at a time, got
func.func @main(%q: tensor<759250124x64xf64>) -> tensor<759250124x64xf64> {
  %0 = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<759250124x64xf64>, tensor<759250124x64xf64>) -> tensor<759250124x759250124xf64>
  %1 = "oneflow.tril"(%0) : (tensor<759250124x759250124xf64>) -> tensor<759250124x759250124xf64>
  %2 = "oneflow.softmax"(%1) : (tensor<759250124x759250124xf64>) -> tensor<759250124x759250124xf64>
  %3 = "oneflow.matmul"(%0, %2) : (tensor<759250124x759250124xf64>, tensor<759250124x759250124xf64>) -> tensor<759250124x759250124xf64>
  %4 = "oneflow.matmul"(%3, %q) : (tensor<759250124x759250124xf64>, tensor<759250124x64xf64>) -> tensor<759250124x64xf64>
  return %4 : tensor<759250124x64xf64>
}
