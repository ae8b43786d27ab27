// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @borders(
// CHECK: "oneflow.reflection_pad1d"{{.*}} : (tensor<?x3x?xf32>) -> tensor<?x3x?xf32>
// CHECK: "oneflow.replication_pad1d"{{.*}} : (tensor<?x3x?xf32>) -> tensor<?x3x?xf32>
func.func @borders(%x: tensor<?x3x?xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.reflection_pad1d"(%x) {padding = [1 : si64, 2 : si64]} : (tensor<?x3x?xf32>) -> tensor<*xf32>
  %1 = "oneflow.replication_pad1d"(%x) {padding = [1 : si64, 2 : si64]} : (tensor<?x3x?xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}

// The last dimension comes first in `padding`.
// CHECK-LABEL: func.func @planes(
// CHECK: "oneflow.reflection_pad2d"{{.*}} : (tensor<?x3x4x5xf16>) -> tensor<?x3x5x8xf16>
// CHECK: "oneflow.reflection_pad2d_grad"{{.*}} : (tensor<?x3x5x8xf16>) -> tensor<?x3x4x5xf16>
// CHECK: "oneflow.replication_pad2d"{{.*}} : (tensor<?x3x4x5xf16>) -> tensor<?x3x5x8xf16>
// CHECK: "oneflow.replication_pad2d_grad"{{.*}} : (tensor<?x3x5x8xf16>) -> tensor<?x3x4x5xf16>
func.func @planes(%x: tensor<?x3x4x5xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0 = "oneflow.reflection_pad2d"(%x) {padding = [1 : si64, 2 : si64, 1 : si64, 0 : si64]} : (tensor<?x3x4x5xf16>) -> tensor<*xf16>
  %1 = "oneflow.reflection_pad2d_grad"(%0) {padding = [1 : si64, 2 : si64, 1 : si64, 0 : si64]} : (tensor<*xf16>) -> tensor<*xf16>
  %2 = "oneflow.replication_pad2d"(%x) {padding = [1 : si64, 2 : si64, 1 : si64, 0 : si64]} : (tensor<?x3x4x5xf16>) -> tensor<*xf16>
  %3 = "oneflow.replication_pad2d_grad"(%2) {padding = [1 : si64, 2 : si64, 1 : si64, 0 : si64]} : (tensor<*xf16>) -> tensor<*xf16>
  return %1, %3 : tensor<*xf16>, tensor<*xf16>
}
