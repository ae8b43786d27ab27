// RUN: oneflow-opt %s --oneflow-expand-floats --target x86-64-v2 | FileCheck %s --check-prefixes=CHECK,V2
// RUN: oneflow-opt %s --oneflow-expand-floats --target x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3

// CHECK-LABEL: func.func @conversions
// V2: call @oneflow_f32_of_f16_8
// V3: arith.extf {{.*}} : vector<8xf16> to vector<8xf32>
// V2: call @oneflow_f16_of_f32_8
// V3: arith.truncf {{.*}} : vector<8xf32> to vector<8xf16>
// CHECK: arith.truncf {{.*}} : vector<8xf32> to vector<8xbf16>
func.func @conversions(%x: vector<8xf16>) -> (vector<8xf16>, vector<8xbf16>) {
  %0 = arith.extf %x : vector<8xf16> to vector<8xf32>
  %1 = arith.truncf %0 : vector<8xf32> to vector<8xf16>
  %2 = arith.truncf %0 : vector<8xf32> to vector<8xbf16>
  return %1, %2 : vector<8xf16>, vector<8xbf16>
}

// An f64 is rounded to odd before the rounding to fewer digits.
// CHECK-LABEL: func.func @once
// CHECK: %[[ODD:.*]] = call @oneflow_f32_odd_of_f64_0
// CHECK: arith.truncf %[[ODD]] : f32 to bf16
func.func @once(%x: f64) -> bf16 {
  %0 = arith.truncf %x : f64 to bf16
  return %0 : bf16
}

// No target converts floats of 8 bits; conversions that are neither from nor to f32 have two steps.
// CHECK-LABEL: func.func @bytes
// CHECK: %[[WIDE:.*]] = call @oneflow_f32_of_f8E4M3FN_8
// CHECK: arith.truncf %[[WIDE]] : vector<8xf32> to vector<8xbf16>
// CHECK: call @oneflow_f32_of_f8E5M2_0
// CHECK: %[[ODD:.*]] = call @oneflow_f32_odd_of_f64_0
// CHECK: call @oneflow_f8E4M3FN_of_f32_0(%[[ODD]])
func.func @bytes(%x: vector<8xf8E4M3FN>, %y: f8E5M2, %z: f64) -> (vector<8xbf16>, f16, f8E4M3FN) {
  %0 = arith.extf %x : vector<8xf8E4M3FN> to vector<8xbf16>
  %1 = arith.extf %y : f8E5M2 to f16
  %2 = arith.truncf %z : f64 to f8E4M3FN
  return %0, %1, %2 : vector<8xbf16>, f16, f8E4M3FN
}

// CHECK-LABEL: func.func @fused
// V2: call @oneflow_fma_f32_4
// V2: call @oneflow_fma_f64_0
// V3: math.fma {{.*}} : vector<4xf32>
// V3: math.fma {{.*}} : f64
func.func @fused(%x: vector<4xf32>, %y: f64) -> (vector<4xf32>, f64) {
  %0 = math.fma %x, %x, %x : vector<4xf32>
  %1 = math.fma %y, %y, %y : f64
  return %0, %1 : vector<4xf32>, f64
}
