// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @soft(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2x3xf32>)
func.func @soft(%x: tensor<2x?xf32>, %label: tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.softmax_cross_entropy"(%x, %label) : (tensor<2x?xf32>, tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.softmax_cross_entropy_grad"(%0#1, %label, %0#0)
    : (tensor<*xf32>, tensor<?x3xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0#0, %0#1, %1 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @sparse(
// CHECK: "oneflow.sparse_cross_entropy"({{.*}}) {depth = 4 : {{.*}}} {{.*}} -> tensor<2xf32>
// CHECK: "oneflow.sparse_cross_entropy_grad"({{.*}}) {depth = 4 : {{.*}}} {{.*}} -> tensor<2x4xf32>
// CHECK: "oneflow.sparse_cross_entropy_ms"({{.*}} -> tensor<2xf32>
// CHECK: "oneflow.sparse_cross_entropy_ms_grad"({{.*}} -> tensor<2x4xf32>
func.func @sparse(%x: tensor<2x?xf32>, %label: tensor<?xi64>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.sparse_cross_entropy"(%x, %label) {depth = 4 : si64} : (tensor<2x?xf32>, tensor<?xi64>) -> tensor<*xf32>
  %1 = "oneflow.sparse_cross_entropy_grad"(%x, %label, %0) {depth = 4 : si64}
    : (tensor<2x?xf32>, tensor<?xi64>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.sparse_cross_entropy_ms"(%1, %label) : (tensor<*xf32>, tensor<?xi64>) -> tensor<*xf32>
  %3 = "oneflow.sparse_cross_entropy_ms_grad"(%1, %label, %2) : (tensor<*xf32>, tensor<?xi64>, tensor<*xf32>) -> tensor<*xf32>
  return %2, %3 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @logits(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: "oneflow.sigmoid_cross_entropy"({{.*}} -> tensor<2x3xf32>
// CHECK: "oneflow.binary_cross_entropy_with_logits_reduce_mean"({{.*}} -> tensor<f32>
func.func @logits(%x: tensor<2x?xf32>, %label: tensor<?x3xi32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.sigmoid_cross_entropy"(%x, %label) : (tensor<2x?xf32>, tensor<?x3xi32>) -> tensor<*xf32>
  %1 = "oneflow.sigmoid_cross_entropy_grad"(%x, %0, %label)
    : (tensor<2x?xf32>, tensor<*xf32>, tensor<?x3xi32>) -> tensor<*xf32>
  %2 = "oneflow.binary_cross_entropy_with_logits_reduce_mean"(%1, %x) : (tensor<*xf32>, tensor<2x?xf32>) -> tensor<*xf32>
  %3 = "oneflow.binary_cross_entropy_with_logits_reduce_mean_grad"(%1, %x, %2)
    : (tensor<*xf32>, tensor<2x?xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %1, %3 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @forward_and_backward(
// CHECK-NEXT: "oneflow.fused_bce_reduce_mean_fw_bw"(%{{.*}}, %{{.*}}) {constant_value = 5.000000e-01 : f64, out_dtype = f32} : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<f32>, tensor<2x3xf32>)
func.func @forward_and_backward(%a: tensor<2x3xf32>) -> tensor<*xf32> {
  %0:2 = "oneflow.fused_bce_reduce_mean_fw_bw"(%a, %a) {constant_value = 5.000000e-01 : f64, out_dtype = f32} : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0 : tensor<*xf32>
}
