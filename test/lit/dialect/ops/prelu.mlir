// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// The slopes say how many channels there are.
// CHECK-LABEL: func.func @prelu(
// CHECK-SAME: -> (tensor<2x3x?xf32>, tensor<2x3x?xf32>, tensor<3xf32>)
// CHECK: "oneflow.prelu"(%{{.*}}, %{{.*}}) : (tensor<2x?x?xf32>, tensor<3xf32>) -> tensor<2x3x?xf32>
// CHECK: "oneflow.prelu_grad"({{.*}}) {alpha_requires_grad = true}
func.func @prelu(%x: tensor<2x?x?xf32>, %a: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.prelu"(%x, %a) : (tensor<2x?x?xf32>, tensor<3xf32>) -> tensor<*xf32>
  %1:2 = "oneflow.prelu_grad"(%0, %x, %a) {alpha_requires_grad = true}
    : (tensor<*xf32>, tensor<2x?x?xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0, %1#0, %1#1 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_prelu(
// CHECK: "oneflow.tf_prelu"({{.*}}) : (tensor<3x2x3xf32>, tensor<2x3xf32>) -> tensor<3x2x3xf32>
func.func @tf_prelu(%arg0: tensor<3x2x3xf32>, %arg1: tensor<2x3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tf_prelu"(%arg0, %arg1) : (tensor<3x2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tf_prelu_grad(
// CHECK: "oneflow.tf_prelu_grad"({{.*}}) : (tensor<3x2x3xf32>, tensor<3x2x3xf32>, tensor<2x3xf32>) -> (tensor<3x2x3xf32>, tensor<2x3xf32>)
func.func @tf_prelu_grad(%arg0: tensor<3x2x3xf32>, %arg1: tensor<3x2x3xf32>, %arg2: tensor<2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.tf_prelu_grad"(%arg0, %arg1, %arg2) : (tensor<3x2x3xf32>, tensor<3x2x3xf32>, tensor<2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
}
