// RUN: not oneflow-opt %s --stage triton 2>&1 | FileCheck %s

// CHECK: too_large.mlir:4:1: error: @main: expected tensors of at most 9223372036854775807 bytes at a time, got
func.func @main(%q: tensor<2147483647x16xbf16>) -> tensor<2147483647x16xbf16> {
  %0 = "oneflow.matmul"(%q, %q) {transpose_b = true} : (tensor<2147483647x16xbf16>, tensor<2147483647x16xbf16>) -> tensor<2147483647x2147483647xbf16>
  %1 = "oneflow.tril"(%0) : (tensor<2147483647x2147483647xbf16>) -> tensor<2147483647x2147483647xbf16>
  %2 = "oneflow.softmax"(%1) : (tensor<2147483647x2147483647xbf16>) -> tensor<2147483647x2147483647xbf16>
  %3 = "oneflow.matmul"(%2, %q) : (tensor<2147483647x2147483647xbf16>, tensor<2147483647x16xbf16>) -> tensor<2147483647x16xbf16>
  return %3 : tensor<2147483647x16xbf16>
}
