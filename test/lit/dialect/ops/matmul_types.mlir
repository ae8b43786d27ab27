// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @bias_add(
// CHECK: "oneflow.bias_add"({{.*}}) {axis = 1 : i32} : (tensor<2x3x4xui8>, tensor<3xui8>) -> tensor<2x3x4xui8>
func.func @bias_add(%arg0: tensor<2x3x4xui8>, %arg1: tensor<3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.bias_add"(%arg0, %arg1) {axis = 1 : i32} : (tensor<2x3x4xui8>, tensor<3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @broadcast_matmul_grad_b(
// CHECK: "oneflow.broadcast_matmul_grad_b"({{.*}}) : (tensor<2x3x4xui8>, tensor<2x3x2xui8>) -> tensor<4x2xui8>
func.func @broadcast_matmul_grad_b(%arg0: tensor<2x3x4xui8>, %arg1: tensor<2x3x2xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_matmul_grad_b"(%arg0, %arg1) : (tensor<2x3x4xui8>, tensor<2x3x2xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}
