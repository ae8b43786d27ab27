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

// CHECK-LABEL: func.func @layer_norm_grad(
// CHECK: "oneflow.layer_norm_grad"({{.*}}) {begin_norm_axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>, tensor<3xf32>, tensor<4xf16>) -> tensor<3x4xf16>
func.func @layer_norm_grad(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3xf32>, %arg3: tensor<3xf32>, %arg4: tensor<4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.layer_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) {begin_norm_axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>, tensor<3xf32>, tensor<4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @layer_norm_param_grad(
// CHECK: "oneflow.layer_norm_param_grad"({{.*}}) {begin_params_axis = 1 : i64} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4xf16>, tensor<4xf16>)
func.func @layer_norm_param_grad(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3xf32>, %arg3: tensor<3xf32>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.layer_norm_param_grad"(%arg0, %arg1, %arg2, %arg3) {begin_params_axis = 1 : i64} : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @rms_norm_grad(
// CHECK: "oneflow.rms_norm_grad"({{.*}}) : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>, tensor<4xf16>) -> tensor<3x4xf16>
func.func @rms_norm_grad(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3xf32>, %arg3: tensor<4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.rms_norm_grad"(%arg0, %arg1, %arg2, %arg3) : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>, tensor<4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @rms_norm_param_grad(
// CHECK: "oneflow.rms_norm_param_grad"({{.*}}) : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>) -> tensor<4xf16>
func.func @rms_norm_param_grad(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xf16>, %arg2: tensor<3xf32>) -> tensor<*xf16> {
  %0 = "oneflow.rms_norm_param_grad"(%arg0, %arg1, %arg2) : (tensor<3x4xf16>, tensor<3x4xf16>, tensor<3xf32>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
