// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// 45 elements have their bits in two numbers. An addend and the results of training may be absent.
// CHECK-LABEL: func.func @inference(
// CHECK: "oneflow.normalization_add_relu"{{.*}} -> (tensor<5x3x3xf32>, tensor<2xi32>)
func.func @inference(%x: tensor<5x?x3xf32>, %p: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xi32>) {
  %0:2 = "oneflow.normalization_add_relu"(%x, %p, %p, %p, %p) {
    axis = 1 : si32, epsilon = 1.0e-5 : f32, operand_segment_sizes = array<i32: 1, 0, 1, 1, 1, 1>,
    result_segment_sizes = array<i32: 1, 1, 0, 0>
  } : (tensor<5x?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xi32>)
  return %0#0, %0#1 : tensor<*xf32>, tensor<*xi32>
}

// CHECK-LABEL: func.func @training(
// CHECK: "oneflow.normalization_add_relu"{{.*}} -> (tensor<?x3xf16>, tensor<?xi32>, tensor<3xf32>, tensor<3xf32>)
// CHECK: "oneflow.normalization_add_relu_grad"{{.*}} -> (tensor<3xf32>, tensor<3xf32>, tensor<?x3xf16>, tensor<?x3xf16>)
func.func @training(%x: tensor<?x3xf16>, %p: tensor<3xf32>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:4 = "oneflow.normalization_add_relu"(%x, %x, %p, %p) {
    axis = 1 : si32, training = true, operand_segment_sizes = array<i32: 1, 1, 0, 0, 1, 1>,
    result_segment_sizes = array<i32: 1, 1, 1, 1>
  } : (tensor<?x3xf16>, tensor<?x3xf16>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<*xf16>, tensor<*xi32>, tensor<*xf32>, tensor<*xf32>)
  %1:4 = "oneflow.normalization_add_relu_grad"(%x, %0#0, %0#2, %0#3, %p, %p, %0#1, %0#0) {
    axis = 1 : si32, with_addend = true
  } : (tensor<?x3xf16>, tensor<*xf16>, tensor<*xf32>, tensor<*xf32>, tensor<3xf32>, tensor<3xf32>, tensor<*xi32>, tensor<*xf16>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf16>, tensor<*xf16>)
  return %1#2, %1#3 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @cudnn(
// CHECK-NEXT: "oneflow.cudnn_fused_normalization_add_relu"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {axis = 1 : i32, epsilon = 1.000000e-01 : f32, momentum = 2.500000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>, resultSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<1xi32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: "oneflow.cudnn_fused_normalization_add_relu_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {axis = 1 : i32, with_addend = true} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi32>, tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
func.func @cudnn(%a: tensor<2x2xf32>, %b: tensor<2xf32>, %c: tensor<1xi32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:6 = "oneflow.cudnn_fused_normalization_add_relu"(%a, %a, %b, %b, %b, %b) {axis = 1 : i32, epsilon = 1.000000e-01 : f32, momentum = 2.500000e-01 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>, resultSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xi32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:4 = "oneflow.cudnn_fused_normalization_add_relu_grad"(%a, %a, %b, %b, %b, %b, %c, %a) {axis = 1 : i32, with_addend = true} : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi32>, tensor<2x2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}
