// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @noncontiguous_binary_op(
// CHECK: "oneflow.noncontiguous_binary_op"({{.*}}) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
func.func @noncontiguous_binary_op(%arg0: tensor<3x2xf32>, %arg1: tensor<3x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.noncontiguous_binary_op"(%arg0, %arg1) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @noncontiguous_binary_op_grad(
// CHECK: "oneflow.noncontiguous_binary_op_grad"({{.*}}) {op = "div"} : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
func.func @noncontiguous_binary_op_grad(%arg0: tensor<3x2xf32>, %arg1: tensor<3x2xf32>, %arg2: tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.noncontiguous_binary_op_grad"(%arg0, %arg1, %arg2) {op = "div"} : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
}
