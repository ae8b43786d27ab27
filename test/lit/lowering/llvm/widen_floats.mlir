// RUN: oneflow-opt %s --oneflow-widen-floats | FileCheck %s

// CHECK-LABEL: func.func @narrow
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[Y:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[SUM:.*]] = arith.addf %[[X]], %[[Y]] : f32
// CHECK: arith.truncf %[[SUM]] : f32 to bf16
// CHECK: math.fma {{.*}} : vector<4xf32>
// CHECK: arith.truncf {{.*}} : vector<4xf32> to vector<4xf16>
// CHECK: arith.cmpf olt, {{.*}} : f32
// CHECK: arith.select {{.*}} : bf16
func.func @narrow(%x: bf16, %y: bf16, %v: vector<4xf16>) -> (bf16, vector<4xf16>, bf16) {
  %0 = arith.addf %x, %y : bf16
  %1 = math.fma %v, %v, %v : vector<4xf16>
  %2 = arith.cmpf olt, %x, %y : bf16
  %3 = arith.select %2, %x, %y : bf16
  return %0, %1, %3 : bf16, vector<4xf16>, bf16
}

// CHECK-LABEL: func.func @wide
// CHECK-NOT: arith.extf
func.func @wide(%x: f32, %y: f64) -> (f32, f64) {
  %0 = arith.mulf %x, %x : f32
  %1 = math.exp %y : f64
  return %0, %1 : f32, f64
}
