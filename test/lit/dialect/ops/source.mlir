// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @sources(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<f32>, tensor<3x4xf32>, tensor<4xf32>)
func.func @sources() -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  // CHECK: "oneflow.constant"() {{.*}}floating_value = 1.5
  %0 = "oneflow.constant"() {dtype = f32, shape = [2, 3], is_floating_value = true, floating_value = 1.5 : f64}
    : () -> tensor<*xf32>
  // OneFlow's number of a data type.
  // CHECK: "oneflow.empty"() {{.*}}dtype = f32
  %1 = "oneflow.empty"() {dtype = 2 : i32, shape = []} : () -> tensor<*xf32>
  %2 = "oneflow.eye"() {dtype = f32, rows = 3 : si64, cols = 4 : si64} : () -> tensor<*xf32>
  %3 = "oneflow.arange"() {dtype = f32, float_delta = 0.3 : f64, float_limit = 1.0 : f64} : () -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @likes(
// CHECK-SAME: -> (tensor<?x3xi32>, tensor<?x3xi32>)
func.func @likes(%x: tensor<?x3xi32>) -> (tensor<*xi32>, tensor<*xi32>) {
  %0 = "oneflow.zero_like"(%x) : (tensor<?x3xi32>) -> tensor<*xi32>
  %1 = "oneflow.ones_like"(%x) : (tensor<?x3xi32>) -> tensor<*xi32>
  return %0, %1 : tensor<*xi32>, tensor<*xi32>
}

// CHECK-LABEL: func.func @tensor_constant(
// CHECK: "oneflow.tensor_constant"({{.*}}) {dtype = f32, shape = array<i64: 3, 4>} : (tensor<f32>) -> tensor<3x4xf32>
func.func @tensor_constant(%arg0: tensor<f32>) -> tensor<*xf32> {
  %0 = "oneflow.tensor_constant"(%arg0) {dtype = f32, shape = array<i64: 3, 4>} : (tensor<f32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
