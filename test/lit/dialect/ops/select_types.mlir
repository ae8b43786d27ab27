// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @clip_by_scalar_max(
// CHECK: "oneflow.clip_by_scalar_max"({{.*}}) {floating_max = 1.000000e+00 : f64, integral_max = 1 : i64} : (tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @clip_by_scalar_max(%arg0: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.clip_by_scalar_max"(%arg0) {floating_max = 1.000000e+00 : f64, integral_max = 1 : i64} : (tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @clip_by_scalar_min(
// CHECK: "oneflow.clip_by_scalar_min"({{.*}}) {floating_min = -5.000000e-01 : f64, integral_min = -1 : i64} : (tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @clip_by_scalar_min(%arg0: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.clip_by_scalar_min"(%arg0) {floating_min = -5.000000e-01 : f64, integral_min = -1 : i64} : (tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}
