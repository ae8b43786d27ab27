// RUN: oneflow-opt %s --oneflow-expand-math | FileCheck %s
// RUN: oneflow-opt %s --oneflow-expand-math --convert-func-to-llvm | FileCheck %s --check-prefix=LLVM

// One function per vector type replaces the operations; LLVM inlines the function.
// CHECK-LABEL: func.func @vectors(
// CHECK: %[[A:.*]] = call @oneflow_exp_16(%arg0) : (vector<16xf32>) -> vector<16xf32>
// CHECK: %[[B:.*]] = call @oneflow_exp_16(%[[A]])
// CHECK: call @oneflow_tanh_8(%arg1) : (vector<8xf32>) -> vector<8xf32>
func.func @vectors(%x: vector<16xf32>, %y: vector<8xf32>) -> (vector<16xf32>, vector<8xf32>) {
  %0 = math.exp %x : vector<16xf32>
  %1 = math.exp %0 : vector<16xf32>
  %2 = math.tanh %y : vector<8xf32>
  return %1, %2 : vector<16xf32>, vector<8xf32>
}

// CHECK-LABEL: func.func @scalars(
// CHECK: call @oneflow_log{{.*}}(f32) -> f32
// CHECK: call @oneflow_erf{{.*}}(f32) -> f32
func.func @scalars(%x: f32) -> f32 {
  %0 = math.log %x : f32
  %1 = math.erf %0 : f32
  return %1 : f32
}

// Functions for f64 have f64 in their names.
// CHECK-LABEL: func.func @of_f64(
// CHECK: call @oneflow_log_f64_8(%arg0) : (vector<8xf64>) -> vector<8xf64>
// CHECK: call @oneflow_erf_f64_8
// CHECK: call @oneflow_exp_f64_0(%arg1) : (f64) -> f64
func.func @of_f64(%x: vector<8xf64>, %y: f64) -> (vector<8xf64>, f64) {
  %0 = math.log %x : vector<8xf64>
  %1 = math.erf %0 : vector<8xf64>
  %2 = math.exp %y : f64
  return %1, %2 : vector<8xf64>, f64
}

// Other types and other functions are unchanged.
// CHECK-LABEL: func.func @others(
// CHECK: math.erfc %{{.*}} : f32
// CHECK: math.exp %{{.*}} : f16
func.func @others(%x: f32, %y: f16) -> (f32, f16) {
  %0 = math.erfc %x : f32
  %1 = math.exp %y : f16
  return %0, %1 : f32, f16
}

// CHECK-LABEL: func.func @two_operands(
// CHECK: call @oneflow_powf_4(%arg0, %arg1) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK: call @oneflow_sin_4
func.func @two_operands(%x: vector<4xf32>, %y: vector<4xf32>) -> vector<4xf32> {
  %0 = math.powf %x, %y : vector<4xf32>
  %1 = math.sin %0 : vector<4xf32>
  return %1 : vector<4xf32>
}

// The exponent is added to the bits of 1.0; the rest is a polynomial. AVX2 has no conversion of f64 to i64.
// CHECK: func.func private @oneflow_exp_16(
// LLVM: llvm.func internal @oneflow_exp_16({{.*}} attributes {always_inline
// CHECK-NOT: fptosi
// CHECK: math.fma
// CHECK: arith.shli
// CHECK: arith.bitcast %{{.*}} : vector<16xi32> to vector<16xf32>

// Angles beyond the range of the range reduction go through libm, lane by lane.
// CHECK: func.func private @oneflow_sin_4(
// CHECK: scf.if
// CHECK-NOT: math.sin
// CHECK: } else {
// CHECK: math.sin %{{.*}} : f32
