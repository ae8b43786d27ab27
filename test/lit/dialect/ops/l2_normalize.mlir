// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @l2_normalize(
// CHECK-SAME: -> (tensor<2x?xf32>, tensor<2x1xf32>, tensor<2x?xf32>)
// CHECK: "oneflow.l2_normalize"({{.*}}axis = 1 : {{.*}} : (tensor<2x?xf32>) -> (tensor<2x?xf32>, tensor<2x1xf32>)
func.func @l2_normalize(%x: tensor<2x?xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.l2_normalize"(%x) {axis = 1 : si32, epsilon = 1.0e-5 : f32}
    : (tensor<2x?xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.l2_normalize_grad"(%x, %0#0, %0#1) {axis = 1 : si32, epsilon = 1.0e-5 : f32}
    : (tensor<2x?xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0#0, %0#1, %1 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
