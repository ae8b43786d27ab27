// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @multi_reduce_max_abs(
// CHECK: "oneflow.multi_reduce_max_abs"({{.*}}) : (tensor<*xf32>, tensor<*xf32>) -> tensor<f32>
func.func @multi_reduce_max_abs(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> tensor<*xf32> {
  %cast = tensor.cast %arg0 : tensor<2x2xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<2xf32> to tensor<*xf32>
  %0 = "oneflow.multi_reduce_max_abs"(%cast, %cast_0) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @multi_reduce_min_abs(
// CHECK: "oneflow.multi_reduce_min_abs"({{.*}}) : (tensor<*xf32>, tensor<*xf32>) -> tensor<f32>
func.func @multi_reduce_min_abs(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> tensor<*xf32> {
  %cast = tensor.cast %arg0 : tensor<2x2xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<2xf32> to tensor<*xf32>
  %0 = "oneflow.multi_reduce_min_abs"(%cast, %cast_0) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @local_multi_reduce_max_abs(
// CHECK: "oneflow.local_multi_reduce_max_abs"({{.*}}) : (tensor<*xf32>, tensor<*xf32>) -> tensor<1xf32>
func.func @local_multi_reduce_max_abs(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> tensor<*xf32> {
  %cast = tensor.cast %arg0 : tensor<2x2xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<2xf32> to tensor<*xf32>
  %0 = "oneflow.local_multi_reduce_max_abs"(%cast, %cast_0) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @local_multi_reduce_min_abs(
// CHECK: "oneflow.local_multi_reduce_min_abs"({{.*}}) : (tensor<*xf32>, tensor<*xf32>) -> tensor<1xf32>
func.func @local_multi_reduce_min_abs(%arg0: tensor<2x2xf32>, %arg1: tensor<2xf32>) -> tensor<*xf32> {
  %cast = tensor.cast %arg0 : tensor<2x2xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<2xf32> to tensor<*xf32>
  %0 = "oneflow.local_multi_reduce_min_abs"(%cast, %cast_0) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @multi_reduce_sum_pow_abs(
// CHECK: "oneflow.multi_reduce_sum_pow_abs"({{.*}}) {p = 2.000000e+00 : f32} : (tensor<*xf32>, tensor<*xf32>) -> tensor<f32>
func.func @multi_reduce_sum_pow_abs(%arg0: tensor<3x4xf32>, %arg1: tensor<3xf32>) -> tensor<*xf32> {
  %cast = tensor.cast %arg0 : tensor<3x4xf32> to tensor<*xf32>
  %cast_0 = tensor.cast %arg1 : tensor<3xf32> to tensor<*xf32>
  %0 = "oneflow.multi_reduce_sum_pow_abs"(%cast, %cast_0) {p = 2.000000e+00 : f32} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
