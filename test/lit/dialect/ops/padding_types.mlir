// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @reflection_pad1d_grad(
// CHECK: "oneflow.reflection_pad1d_grad"({{.*}}) {padding = array<i64: 1, 2>} : (tensor<1x2x7xf32>) -> tensor<1x2x4xf32>
func.func @reflection_pad1d_grad(%arg0: tensor<1x2x7xf32>) -> tensor<*xf32> {
  %0 = "oneflow.reflection_pad1d_grad"(%arg0) {padding = array<i64: 1, 2>} : (tensor<1x2x7xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @replication_pad1d_grad(
// CHECK: "oneflow.replication_pad1d_grad"({{.*}}) {padding = array<i64: 1, 2>} : (tensor<1x2x7xf32>) -> tensor<1x2x4xf32>
func.func @replication_pad1d_grad(%arg0: tensor<1x2x7xf32>) -> tensor<*xf32> {
  %0 = "oneflow.replication_pad1d_grad"(%arg0) {padding = array<i64: 1, 2>} : (tensor<1x2x7xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
