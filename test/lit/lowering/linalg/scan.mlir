// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// The scanned dimension is a reduction; the outs are the result and the running value.

// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[KEPT:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @scan(
// CHECK: %[[R:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// CHECK: %[[OUT:.*]]:2 = linalg.generic {indexing_maps = [#[[ID]], #[[ID]], #[[KEPT]]], iterator_types = ["reduction", "parallel"]}
// CHECK-SAME: ins(%arg0 : tensor<3x4xf32>) outs(%{{.*}}, %[[R]] : tensor<3x4xf32>, tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32, %[[SUM:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[SUM]], %[[X]] : f32
// CHECK-NEXT: linalg.yield %[[S]], %[[S]] : f32, f32
// CHECK: return %[[OUT]]#0
func.func @scan(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "oneflow.cumsum"(%a) {dim = 0 : si64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
