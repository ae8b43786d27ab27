// RUN: oneflow-opt %s --oneflow-widen-scans --split-input-file | FileCheck %s

#every = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @running_sum
// CHECK: %[[Z:.*]] = arith.extf %{{.*}} : f32 to f64
// CHECK: %[[E:.*]] = tensor.empty(%{{.*}}) : tensor<?xf64>
// CHECK: %[[F:.*]] = linalg.fill ins(%[[Z]] : f64) outs(%[[E]] : tensor<?xf64>)
// CHECK: outs(%{{.*}}, %[[F]] : tensor<?x50xf32>, tensor<?xf64>)
// CHECK: ^bb0(%[[X:.*]]: f32, %{{.*}}: f32, %[[ACC:.*]]: f64):
// CHECK: %[[S:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK: %[[W:.*]] = arith.extf %[[S]] : f32 to f64
// CHECK: %[[SUM:.*]] = arith.addf %[[W]], %[[ACC]] : f64
// CHECK: %[[N:.*]] = arith.truncf %[[SUM]] : f64 to f32
// CHECK: linalg.yield %[[N]], %[[SUM]] : f32, f64
func.func @running_sum(%x: tensor<?x50xf32>, %rows: index) -> tensor<?x50xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%rows) : tensor<?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %o = tensor.empty(%rows) : tensor<?x50xf32>
  %y:2 = linalg.generic {indexing_maps = [#every, #every, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x50xf32>) outs(%o, %f : tensor<?x50xf32>, tensor<?xf32>) {
  ^bb0(%a: f32, %old: f32, %acc: f32):
    %square = arith.mulf %a, %a : f32
    %s = arith.addf %square, %acc : f32
    linalg.yield %s, %s : f32, f32
  } -> (tensor<?x50xf32>, tensor<?xf32>)
  return %y#0 : tensor<?x50xf32>
}

// -----

// Bodies that read the sum, sums with another accumulator type, and loops without a running sum are unchanged.
#every = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @others
// CHECK-NOT: extf
func.func @others(%x: tensor<3x50xf32>, %i: tensor<3x50xi64>) -> (tensor<3x50xf32>, tensor<3xf32>, tensor<3x50xi64>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %o = tensor.empty() : tensor<3x50xf32>
  %y:2 = linalg.generic {indexing_maps = [#every, #every, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x50xf32>) outs(%o, %f : tensor<3x50xf32>, tensor<3xf32>) {
  ^bb0(%a: f32, %old: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s, %s : f32, f32
  } -> (tensor<3x50xf32>, tensor<3xf32>)
  %none = arith.constant 0 : i64
  %d = tensor.empty() : tensor<3xi64>
  %g = linalg.fill ins(%none : i64) outs(%d : tensor<3xi64>) -> tensor<3xi64>
  %p = tensor.empty() : tensor<3x50xi64>
  %z:2 = linalg.generic {indexing_maps = [#every, #every, #row], iterator_types = ["parallel", "reduction"]}
      ins(%i : tensor<3x50xi64>) outs(%p, %g : tensor<3x50xi64>, tensor<3xi64>) {
  ^bb0(%a: i64, %old: i64, %acc: i64):
    %s = arith.addi %a, %acc : i64
    linalg.yield %s, %s : i64, i64
  } -> (tensor<3x50xi64>, tensor<3xi64>)
  return %y#0, %y#1, %z#0 : tensor<3x50xf32>, tensor<3xf32>, tensor<3x50xi64>
}
