// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @skipped(
// CHECK-NEXT: "oneflow.skip_layer_norm"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {alpha = 5.000000e-01 : f64, epsilon = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>, tensor<?xf32>)
// CHECK-NEXT: "oneflow.skip_rms_norm"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {alpha = 5.000000e-01 : f32, epsilon = 5.000000e-01 : f32, normalized_shape = array<i64: 4>, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?xf32>)
func.func @skipped(%a: tensor<?x4xf32>, %b: tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.skip_layer_norm"(%a, %b, %b, %b, %a) {alpha = 5.000000e-01 : f64, epsilon = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:2 = "oneflow.skip_rms_norm"(%a, %b, %b, %a) {alpha = 5.000000e-01 : f32, epsilon = 5.000000e-01 : f32, normalized_shape = array<i64: 4>, operandSegmentSizes = array<i32: 1, 1, 1, 1>} : (tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @gradients(
// CHECK-NEXT: "oneflow.fuse_layer_norm_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {begin_norm_axis = 1 : i64, begin_params_axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>, tensor<2xf32>, tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<2xf32>, tensor<2xf32>)
func.func @gradients(%a: tensor<?x2xf32>, %b: tensor<?xf32>, %c: tensor<2xf32>) -> tensor<*xf32> {
  %0:3 = "oneflow.fuse_layer_norm_grad"(%a, %a, %b, %b, %c, %a) {begin_norm_axis = 1 : i64, begin_params_axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>} : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>, tensor<2xf32>, tensor<?x2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0 : tensor<*xf32>
}
