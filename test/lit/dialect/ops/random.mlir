// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @drawn(
// CHECK-SAME: -> (tensor<2x3xf32>, tensor<4xf64>, tensor<5xi8>)
func.func @drawn() -> (tensor<*xf32>, tensor<*xf64>, tensor<*xi8>) {
  // CHECK: "oneflow.uniform"() {{.*}}from = -1.0{{.*}}seed = 7
  %0 = "oneflow.uniform"() {dtype = f32, shape = [2, 3], from = -1.0 : f64, seed = 7 : si64} : () -> tensor<*xf32>
  %1 = "oneflow.normal"() {dtype = f64, shape = [4]} : () -> tensor<*xf64>
  %2 = "oneflow.uniform_int"() {dtype = i8, shape = [5], to = 100 : si64} : () -> tensor<*xi8>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf64>, tensor<*xi8>
}

// CHECK-LABEL: func.func @drawn_like(
// CHECK-SAME: -> (tensor<?x3xf32>, tensor<?x3xf64>, tensor<?x3xi8>)
func.func @drawn_like(%n: tensor<i64>, %x: tensor<?x3xf16>) -> (tensor<*xf32>, tensor<*xf64>, tensor<*xi8>) {
  %0 = "oneflow.uniform"(%n, %x) {dtype = f32, shape = []} : (tensor<i64>, tensor<?x3xf16>) -> tensor<*xf32>
  %1 = "oneflow.normal"(%n, %x) {dtype = f64, shape = []} : (tensor<i64>, tensor<?x3xf16>) -> tensor<*xf64>
  %2 = "oneflow.uniform_int"(%n, %x) {dtype = i8, shape = [], to = 100 : si64} : (tensor<i64>, tensor<?x3xf16>) -> tensor<*xi8>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xf64>, tensor<*xi8>
}

// CHECK-LABEL: func.func @masks(
// CHECK-SAME: -> (tensor<?x3xf16>, tensor<?x3xi1>, tensor<?x3xi1>, tensor<?x3xi32>)
func.func @masks(%x: tensor<?x3xf16>) -> (tensor<*xf16>, tensor<*xi1>, tensor<*xi1>, tensor<*xi32>) {
  %0:2 = "oneflow.dropout"(%x) {rate = 0.5 : f32} : (tensor<?x3xf16>) -> (tensor<*xf16>, tensor<*xi1>)
  %1 = "oneflow.random_mask_like"(%x) {rate = 0.5 : f32} : (tensor<?x3xf16>) -> tensor<*xi1>
  %2 = "oneflow.bernoulli"(%x) {dtype = i32, p = -1.0 : f64} : (tensor<?x3xf16>) -> tensor<*xi32>
  return %0#0, %0#1, %1, %2 : tensor<*xf16>, tensor<*xi1>, tensor<*xi1>, tensor<*xi32>
}

// CHECK-LABEL: func.func @dropout_grad(
// CHECK: "oneflow.dropout_grad"({{.*}}) {scale = 2.000000e+00 : f32} : (tensor<3x4xf16>, tensor<3x4xi1>) -> tensor<3x4xf16>
func.func @dropout_grad(%arg0: tensor<3x4xf16>, %arg1: tensor<3x4xi1>) -> tensor<*xf16> {
  %0 = "oneflow.dropout_grad"(%arg0, %arg1) {scale = 2.000000e+00 : f32} : (tensor<3x4xf16>, tensor<3x4xi1>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
