// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @layers(
// CHECK: "oneflow.cublas_fused_mlp"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 2, 2>, resultSegmentSizes = array<i32: 1, 2, 2>} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>) -> (tensor<?x1xf32>, tensor<?x4xi32>, tensor<?x4xi32>, tensor<?x?xf32>, tensor<?x?xf32>)
// CHECK: "oneflow.fused_matmul_bias_add_relu_dropout"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dropout_rate_list = array<f32: 2.500000e-01, 5.000000e-01>, operandSegmentSizes = array<i32: 1, 2, 2>, resultSegmentSizes = array<i32: 1, 2, 2>, seed = 5 : i64} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>) -> (tensor<?x1xf32>, tensor<?x4xi32>, tensor<?x4xi32>, tensor<?x?xf32>, tensor<?x?xf32>)
func.func @layers(%a: tensor<?x2xf32>, %b: tensor<2x2xf32>, %c: tensor<1x2xf32>, %d: tensor<2xf32>, %e: tensor<1xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:5 = "oneflow.cublas_fused_mlp"(%a, %b, %c, %d, %e) {operandSegmentSizes = array<i32: 1, 2, 2>, resultSegmentSizes = array<i32: 1, 2, 2>} : (tensor<?x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<2xf32>, tensor<1xf32>) -> (tensor<*xf32>, tensor<*xi32>, tensor<*xi32>, tensor<*xf32>, tensor<*xf32>)
  %1:5 = "oneflow.fused_matmul_bias_add_relu_dropout"(%a, %b, %c, %d, %e) {dropout_rate_list = array<f32: 2.500000e-01, 5.000000e-01>, operandSegmentSizes = array<i32: 1, 2, 2>, resultSegmentSizes = array<i32: 1, 2, 2>, seed = 5 : i64} : (tensor<?x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<2xf32>, tensor<1xf32>) -> (tensor<*xf32>, tensor<*xi32>, tensor<*xi32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @gradients(
// CHECK: "oneflow.fused_relu_dropout_grad"(%{{.*}}, %{{.*}}) {scale = 1.500000e+00 : f32} : (tensor<?x2xf32>, tensor<?x4xi32>) -> tensor<?x2xf32>
// CHECK: "oneflow.cublas_matmul_bias_add_grad"(%{{.*}}, %{{.*}}) : (tensor<?x2xf32>, tensor<?x4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
// CHECK: "oneflow.cublas_bias_add_relu_matmul_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {alpha = 1.500000e+00 : f64} : (tensor<?x?xf32>, tensor<?x2xf32>, tensor<?x4xi32>) -> (tensor<?x2xf32>, tensor<2xf32>)
// CHECK: "oneflow.cublas_fused_mlp_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {alpha_list = array<f32: 1.500000e+00>, operandSegmentSizes = array<i32: 1, 1, 2, 2, 2>, resultSegmentSizes = array<i32: 1, 2, 2>} : (tensor<?x1xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x4xi32>, tensor<?x4xi32>, tensor<?x?xf32>, tensor<?x?xf32>) -> (tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
func.func @gradients(%a: tensor<?x2xf32>, %b: tensor<?x4xi32>, %c: tensor<?x4xf32>, %d: tensor<?x?xf32>, %e: tensor<?x1xf32>, %f: tensor<2x2xf32>, %g: tensor<1x2xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.fused_relu_dropout_grad"(%a, %b) {scale = 1.500000e+00 : f32} : (tensor<?x2xf32>, tensor<?x4xi32>) -> tensor<*xf32>
  %1:2 = "oneflow.cublas_matmul_bias_add_grad"(%a, %c) : (tensor<?x2xf32>, tensor<?x4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %2:2 = "oneflow.cublas_bias_add_relu_matmul_grad"(%d, %a, %b) {alpha = 1.500000e+00 : f64} : (tensor<?x?xf32>, tensor<?x2xf32>, tensor<?x4xi32>) -> (tensor<*xf32>, tensor<*xf32>)
  %3:5 = "oneflow.cublas_fused_mlp_grad"(%e, %a, %f, %g, %b, %b, %a, %e) {alpha_list = array<f32: 1.500000e+00>, operandSegmentSizes = array<i32: 1, 1, 2, 2, 2>, resultSegmentSizes = array<i32: 1, 2, 2>} : (tensor<?x1xf32>, tensor<?x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<?x4xi32>, tensor<?x4xi32>, tensor<?x2xf32>, tensor<?x1xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0, %1#0, %2#0, %3#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @groups(
// CHECK: "oneflow.grouped_matmul_bias"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 2, 2, 2>} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>)
func.func @groups(%a: tensor<?x2xf32>, %b: tensor<4x2xf32>, %c: tensor<?xf32>, %d: tensor<4xf32>) -> tensor<*xf32> {
  %0:2 = "oneflow.grouped_matmul_bias"(%a, %a, %a, %b, %c, %d) {operandSegmentSizes = array<i32: 2, 2, 2>} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<4x2xf32>, tensor<?xf32>, tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0 : tensor<*xf32>
}
