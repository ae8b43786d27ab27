// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @exponential(
// CHECK: "oneflow.exponential"() {dtype = f32, lambd = 2.000000e+00 : f32, operandSegmentSizes = array<i32: 0, 0>, out_shape = array<i64: 4, 5>} : () -> tensor<4x5xf32>
func.func @exponential() -> tensor<*xf32> {
  %0 = "oneflow.exponential"() {dtype = f32, lambd = 2.000000e+00 : f32, out_shape = array<i64: 4, 5>} : () -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @coin_flip(
// CHECK: "oneflow.coin_flip"() {batch_size = 9 : i64, probability = 2.500000e-01 : f32} : () -> tensor<9xi8>
func.func @coin_flip() -> tensor<*xi8> {
  %0 = "oneflow.coin_flip"() {batch_size = 9 : i64, probability = 2.500000e-01 : f32} : () -> tensor<*xi8>
  return %0 : tensor<*xi8>
}

// CHECK-LABEL: func.func @randperm(
// CHECK: "oneflow.randperm"() {n = 20 : i32, seed = 7 : i64} : () -> tensor<20xi32>
func.func @randperm() -> tensor<*xi32> {
  %0 = "oneflow.randperm"() {n = 20 : i32, seed = 7 : i64} : () -> tensor<*xi32>
  return %0 : tensor<*xi32>
}

// CHECK-LABEL: func.func @generate_random_batch_permutation_indices(
// CHECK: "oneflow.generate_random_batch_permutation_indices"({{.*}}) {seed = 7 : i64} : (tensor<9x3xf32>) -> tensor<9xi32>
func.func @generate_random_batch_permutation_indices(%arg0: tensor<9x3xf32>) -> tensor<*xi32> {
  %0 = "oneflow.generate_random_batch_permutation_indices"(%arg0) {seed = 7 : i64} : (tensor<9x3xf32>) -> tensor<*xi32>
  return %0 : tensor<*xi32>
}

// CHECK-LABEL: func.func @multinomial_with_replacement(
// CHECK: "oneflow.multinomial_with_replacement"({{.*}}) {num_samples = 6 : i32, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x3xf16>) -> tensor<2x6xi64>
func.func @multinomial_with_replacement(%arg0: tensor<2x3xf16>) -> tensor<*xi64> {
  %0 = "oneflow.multinomial_with_replacement"(%arg0) {num_samples = 6 : i32, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x3xf16>) -> tensor<*xi64>
  return %0 : tensor<*xi64>
}

// CHECK-LABEL: func.func @rrelu(
// CHECK: "oneflow.rrelu"({{.*}}) {lower = 2.500000e-01 : f32, seed = 3 : i64, training = true, upper = 5.000000e-01 : f32} : (tensor<3x4xf16>) -> (tensor<3x4xf16>, tensor<3x4xf16>)
func.func @rrelu(%arg0: tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.rrelu"(%arg0) {lower = 2.500000e-01 : f32, seed = 3 : i64, training = true, upper = 5.000000e-01 : f32} : (tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}
