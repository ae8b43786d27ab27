// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @group_norm(
// CHECK: "oneflow.group_norm"{{.*}} : (tensor<?x6x4x4xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<?x6x4x4xf32>, tensor<?x3xf32>, tensor<?x3xf32>)
func.func @group_norm(%x: tensor<?x6x4x4xf32>, %beta: tensor<6xf32>, %gamma: tensor<6xf32>) -> tensor<*xf32> {
  %y, %mean, %inv = "oneflow.group_norm"(%x, %beta, %gamma) {
    affine = true, num_groups = 3 : si32, epsilon = 1.0e-5 : f64, operand_segment_sizes = array<i32: 1, 1, 1>
  } : (tensor<?x6x4x4xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %y : tensor<*xf32>
}
