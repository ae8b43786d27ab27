// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @statistics(
// CHECK-NEXT: "oneflow.batch_norm_stats"(%{{.*}}) {eps = 5.000000e-01 : f32} : (tensor<3x3x2xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.batch_norm_gather_stats_with_counts"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {eps = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>)
func.func @statistics(%a: tensor<3x3x2xf32>, %b: tensor<3xf32>, %c: tensor<2x3xf32>, %d: tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.batch_norm_stats"(%a) {eps = 5.000000e-01 : f32} : (tensor<3x3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1:2 = "oneflow.batch_norm_gather_stats_with_counts"(%b, %c, %c, %d) {eps = 5.000000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @elements(
// CHECK-NEXT: "oneflow.batch_norm_elemt"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x3x2xf32>
// CHECK-NEXT: "oneflow.batch_norm_backward_reduce"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x3x2xf32>, tensor<3x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.batch_norm_backward_elemt"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) -> tensor<3x2xf32>
func.func @elements(%a: tensor<3x3x2xf32>, %b: tensor<3xf32>, %c: tensor<3x2xf32>, %d: tensor<2xf32>, %e: tensor<2xi32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.batch_norm_elemt"(%a, %b, %b, %b, %b) : (tensor<3x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<*xf32>
  %1:4 = "oneflow.batch_norm_backward_reduce"(%a, %a, %b, %b) : (tensor<3x3x2xf32>, tensor<3x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %2 = "oneflow.batch_norm_backward_elemt"(%c, %c, %d, %d, %d, %d, %d, %e) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) -> tensor<*xf32>
  return %0, %1#0, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
