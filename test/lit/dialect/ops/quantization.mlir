// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @quantized(
// CHECK-NEXT: "oneflow.min_max_observer"(%{{.*}}) {per_layer_quantization = false} : (tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.quantization"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: "oneflow.fake_quantization"(%{{.*}}, %{{.*}}, %{{.*}}) {quantization_bit = 4 : i32} : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x4xf32>
func.func @quantized(%x: tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.min_max_observer"(%x) {per_layer_quantization = false} : (tensor<3x4xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1 = "oneflow.quantization"(%x, %0#0, %0#1) : (tensor<3x4xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.fake_quantization"(%x, %0#0, %0#1) {quantization_bit = 4 : si32} : (tensor<3x4xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %1, %2 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @moving_average_min_max_observer(
// CHECK: "oneflow.moving_average_min_max_observer"({{.*}}) {momentum = 7.500000e-01 : f32, quantization_scheme = "affine", stop_update_after_iters = 1 : i64, training = true} : (tensor<3x4xf32>, tensor<1xi64>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
func.func @moving_average_min_max_observer(%arg0: tensor<3x4xf32>, %arg1: tensor<1xi64>, %arg2: tensor<1xf32>, %arg3: tensor<1xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:4 = "oneflow.moving_average_min_max_observer"(%arg0, %arg1, %arg2, %arg3) {momentum = 7.500000e-01 : f32, quantization_scheme = "affine", stop_update_after_iters = 1 : i64, training = true} : (tensor<3x4xf32>, tensor<1xi64>, tensor<1xf32>, tensor<1xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}
