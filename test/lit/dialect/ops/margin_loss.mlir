// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @margins(
// CHECK-NEXT: "oneflow.combined_margin_loss"(%{{.*}}, %{{.*}}) {depth = 4 : i64, m1 = 1.500000e+00 : f32, m2 = 2.500000e-01 : f32, m3 = 1.250000e-01 : f32} : (tensor<?x4xf32>, tensor<?xi32>) -> (tensor<?x4xf32>, tensor<?xf32>)
// CHECK-NEXT: "oneflow.combined_margin_loss_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {depth = 4 : i64, m1 = 1.500000e+00 : f32, m2 = 2.500000e-01 : f32, m3 = 1.250000e-01 : f32} : (tensor<?x4xf32>, tensor<?xi32>, tensor<?xf32>) -> tensor<?x4xf32>
func.func @margins(%a: tensor<?x4xf32>, %b: tensor<?xi32>, %c: tensor<?xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.combined_margin_loss"(%a, %b) {depth = 4 : i64, m1 = 1.500000e+00 : f32, m2 = 2.500000e-01 : f32, m3 = 1.250000e-01 : f32} : (tensor<?x4xf32>, tensor<?xi32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.combined_margin_loss_grad"(%a, %b, %c) {depth = 4 : i64, m1 = 1.500000e+00 : f32, m2 = 2.500000e-01 : f32, m3 = 1.250000e-01 : f32} : (tensor<?x4xf32>, tensor<?xi32>, tensor<?xf32>) -> tensor<*xf32>
  return %0#0, %1 : tensor<*xf32>, tensor<*xf32>
}
