// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// The assigned value has the type of the tensor that the value is assigned into.
// CHECK-LABEL: func.func @set(
// CHECK-SAME: -> tensor<4x?x6xf16>
func.func @set(%x: tensor<4x?x6xf16>, %i: tensor<7x2xi64>, %u: tensor<7x6xf16>) -> tensor<*xf16> {
  %0 = "oneflow.tensor_scatter_nd_update"(%x, %u, %i)
    : (tensor<4x?x6xf16>, tensor<7x6xf16>, tensor<7x2xi64>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
