// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// Sums over whole tensors have one dimension of size 1.
// CHECK-LABEL: func.func @totals(
// CHECK-SAME: -> (tensor<1xf16>, tensor<1xf16>, tensor<1xi64>, tensor<1xi64>)
func.func @totals(%x: tensor<2x?xf16>, %y: tensor<5xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xi64>, tensor<*xi64>) {
  %0 = "oneflow.square_sum"(%x) : (tensor<2x?xf16>) -> tensor<*xf16>
  %1 = "oneflow.multi_square_sum"(%y, %y) : (tensor<5xf16>, tensor<5xf16>) -> tensor<*xf16>
  %2 = "oneflow.count_not_finite"(%x) : (tensor<2x?xf16>) -> tensor<*xi64>
  %3 = "oneflow.multi_count_not_finite"(%y, %y) : (tensor<5xf16>, tensor<5xf16>) -> tensor<*xi64>
  return %0, %1, %2, %3 : tensor<*xf16>, tensor<*xf16>, tensor<*xi64>, tensor<*xi64>
}

// CHECK-LABEL: func.func @schedule(
// CHECK: "oneflow.dynamic_loss_scale_schedule"{{.*}} {increment_period = 100 : i64} : (tensor<1xi64>, tensor<1xf32>, tensor<1xi64>) -> (tensor<1xf32>, tensor<1xi64>)
func.func @schedule(%count: tensor<1xi64>, %scale: tensor<1xf32>, %steps: tensor<1xi64>) -> (tensor<*xf32>, tensor<*xi64>) {
  %0:2 = "oneflow.dynamic_loss_scale_schedule"(%count, %scale, %steps) {increment_period = 100 : si64}
    : (tensor<1xi64>, tensor<1xf32>, tensor<1xi64>) -> (tensor<*xf32>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi64>
}

// CHECK-LABEL: func.func @regularized(
// CHECK: "oneflow.l1_l2_regularize_gradient"{{.*}} -> tensor<2x3xf32>
func.func @regularized(%p: tensor<2x?xf32>, %g: tensor<?x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.l1_l2_regularize_gradient"(%p, %g) {l1 = 0.5 : f32} : (tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
