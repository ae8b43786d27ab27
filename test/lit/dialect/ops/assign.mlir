// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @assign(
// CHECK: "oneflow.assign"({{.*}}) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @assign(%arg0: tensor<3x2xf32>, %arg1: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.assign"(%arg0, %arg1) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @assign_if(
// CHECK: "oneflow.assign_if"({{.*}}) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<1xi8>) -> tensor<3x2xf32>
func.func @assign_if(%arg0: tensor<3x2xf32>, %arg1: tensor<3x2xf32>, %arg2: tensor<1xi8>) -> tensor<*xf32> {
  %0 = "oneflow.assign_if"(%arg0, %arg1, %arg2) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<1xi8>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @assign_if_not(
// CHECK: "oneflow.assign_if_not"({{.*}}) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<1xi64>) -> tensor<3x2xf32>
func.func @assign_if_not(%arg0: tensor<3x2xf32>, %arg1: tensor<3x2xf32>, %arg2: tensor<1xi64>) -> tensor<*xf32> {
  %0 = "oneflow.assign_if_not"(%arg0, %arg1, %arg2) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<1xi64>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
