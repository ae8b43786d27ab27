// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @group_norm_grad(
// CHECK: "oneflow.group_norm_grad"({{.*}}) {epsilon = 1.000000e-05 : f64, num_groups = 2 : i32} : (tensor<3x4x2xf16>, tensor<3x4x2xf16>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<4xf16>) -> tensor<3x4x2xf16>
func.func @group_norm_grad(%arg0: tensor<3x4x2xf16>, %arg1: tensor<3x4x2xf16>, %arg2: tensor<3x2xf32>, %arg3: tensor<3x2xf32>, %arg4: tensor<4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.group_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) {epsilon = 1.000000e-05 : f64, num_groups = 2 : i32} : (tensor<3x4x2xf16>, tensor<3x4x2xf16>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @group_norm_param_grad(
// CHECK: "oneflow.group_norm_param_grad"({{.*}}) : (tensor<3x4x2xf16>, tensor<3x4x2xf16>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<4xf16>, tensor<4xf16>)
func.func @group_norm_param_grad(%arg0: tensor<3x4x2xf16>, %arg1: tensor<3x4x2xf16>, %arg2: tensor<3x2xf32>, %arg3: tensor<3x2xf32>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.group_norm_param_grad"(%arg0, %arg1, %arg2, %arg3) : (tensor<3x4x2xf16>, tensor<3x4x2xf16>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}
