// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// OneFlow's operand order: x, beta, gamma.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: "oneflow.layer_norm"{{.*}} : (tensor<2x?x8xf16>, tensor<8xf16>, tensor<8xf16>) -> (tensor<2x?x8xf16>, tensor<2x?xf32>, tensor<2x?xf32>)
func.func @layer_norm(%x: tensor<2x?x8xf16>, %beta: tensor<8xf16>, %gamma: tensor<8xf16>) -> tensor<*xf16> {
  %y, %mean, %inv = "oneflow.layer_norm"(%x, %beta, %gamma) {
    begin_norm_axis = 2 : si64, begin_params_axis = 2 : si64, center = true, epsilon = 1.0e-5 : f64, scale = true,
    operand_segment_sizes = array<i32: 1, 1, 1>
  } : (tensor<2x?x8xf16>, tensor<8xf16>, tensor<8xf16>) -> (tensor<*xf16>, tensor<*xf32>, tensor<*xf32>)
  return %y : tensor<*xf16>
}

// CHECK-LABEL: func.func @rms_norm(
// CHECK: "oneflow.rms_norm"{{.*}} : (tensor<?x8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>)
func.func @rms_norm(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<*xf32> {
  %y, %inv = "oneflow.rms_norm"(%x, %w) {normalized_shape = [8], epsilon = 1.0e-6 : f32}
    : (tensor<?x8xf32>, tensor<8xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %y : tensor<*xf32>
}
