// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s
// RUN: oneflow-opt %s --oneflow-canonicalize="laws=identity-transpose" | FileCheck %s --check-prefix=OFF

// A constant with equal elements is `oneflow.constant`.
// CHECK-LABEL: func.func @splat
// OFF-LABEL: func.func @splat
// OFF: oneflow.broadcast_mul
func.func @splat() -> tensor<2x3xf32> {
  // CHECK-NEXT: %[[C:.*]] = "oneflow.constant"() {dtype = f32, floating_value = 6.000000e+00 : f64, is_floating_value = true, shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
  // CHECK-NEXT: return %[[C]]
  %0 = "oneflow.constant"() {dtype = f32, shape = [2, 3], is_floating_value = true, floating_value = 2.0 : f64} : () -> tensor<2x3xf32>
  %1 = "oneflow.constant"() {dtype = f32, shape = [1, 3], is_floating_value = true, floating_value = 3.0 : f64} : () -> tensor<1x3xf32>
  %2 = "oneflow.broadcast_mul"(%0, %1) : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// Other small constants are `arith.constant`; -0.0 and NaN keep the bits.
// CHECK-LABEL: func.func @dense
func.func @dense() -> (tensor<4xf32>, tensor<2x2xi64>, tensor<3xi1>, tensor<2xbf16>) {
  // CHECK-DAG: arith.constant dense<[-0.000000e+00, 2.000000e+00, 0xFFC00000, -0.000000e+00]> : tensor<4xf32>
  %0 = arith.constant dense<[0.0, -2.0, 0x7FC00000, 0.0]> : tensor<4xf32>
  %1 = "oneflow.negative"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-DAG: arith.constant dense<{{\[}}[1, 3], [2, 4]]> : tensor<2x2xi64>
  %2 = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %3 = "oneflow.transpose"(%2) {perm = array<i32: 1, 0>} : (tensor<2x2xi64>) -> tensor<2x2xi64>
  // CHECK-DAG: arith.constant dense<[false, true, false]> : tensor<3xi1>
  %4 = arith.constant dense<[1, 0, 3]> : tensor<3xi32>
  %5 = "oneflow.logical_not"(%4) : (tensor<3xi32>) -> tensor<3xi1>
  // CHECK-DAG: arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xbf16>
  %6 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %7 = "oneflow.cast"(%6) {dtype = bf16} : (tensor<2xf32>) -> tensor<2xbf16>
  return %1, %3, %5, %7 : tensor<4xf32>, tensor<2x2xi64>, tensor<3xi1>, tensor<2xbf16>
}

// Whole chains are folded, for any order of the operands.
// CHECK-LABEL: func.func @chain
func.func @chain() -> tensor<1xi32> {
  // CHECK-NEXT: %[[C:.*]] = "oneflow.constant"() {dtype = i32, integer_value = 10 : i64, shape = array<i64: 1>}
  // CHECK-NEXT: return %[[C]]
  %0 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = "oneflow.reduce_sum"(%0) {axis = [0 : i32], keepdims = true} : (tensor<4xi32>) -> tensor<1xi32>
  %2 = "oneflow.negative"(%1) : (tensor<1xi32>) -> tensor<1xi32>
  %3 = "oneflow.abs"(%2) : (tensor<1xi32>) -> tensor<1xi32>
  return %3 : tensor<1xi32>
}

// The result keeps the type that the program states.
// CHECK-LABEL: func.func @type
func.func @type() -> tensor<?xf32> {
  // CHECK: %[[C:.*]] = "oneflow.constant"() {{.*}} : () -> tensor<2xf32>
  // CHECK: tensor.cast %[[C]] : tensor<2xf32> to tensor<?xf32>
  %0 = arith.constant dense<1.0> : tensor<2xf32>
  %1 = "oneflow.relu"(%0) : (tensor<2xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// Results too large to be written element by element are not folded.
// CHECK-LABEL: func.func @large
func.func @large() -> tensor<2000xi64> {
  // CHECK: oneflow.arange
  // CHECK: oneflow.negative
  %0 = "oneflow.arange"() {dtype = i64, integer_start = 0 : i64, integer_delta = 1 : i64, integer_limit = 2000 : i64} : () -> tensor<2000xi64>
  %1 = "oneflow.negative"(%0) : (tensor<2000xi64>) -> tensor<2000xi64>
  return %1 : tensor<2000xi64>
}

// uint8 has no `arith.constant`, so only constants of one value fold.
// CHECK-LABEL: func.func @uint8
func.func @uint8() -> tensor<2xui8> {
  // CHECK: oneflow.cast
  %0 = arith.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "oneflow.cast"(%0) {dtype = ui8} : (tensor<2xi32>) -> tensor<2xui8>
  return %1 : tensor<2xui8>
}
