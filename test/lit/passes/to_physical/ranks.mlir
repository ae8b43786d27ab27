// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2" --oneflow-insert-boxing --oneflow-to-physical | FileCheck %s --check-prefixes=CHECK,FIRST
// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2" --oneflow-insert-boxing --oneflow-to-physical="rank=1 check" | FileCheck %s --check-prefixes=CHECK,SECOND

// The shards of 5 rows are 3 and 2; attributes that speak of sizes are local.
// FIRST: oneflow.rank = 0
// SECOND: oneflow.rank = 1
// CHECK-LABEL: func.func @f
// FIRST-SAME: %arg0: tensor<3x4xf32> {oneflow.logical_shape = array<i64: 5, 4>, oneflow.nd_sbp = [#sbp.split<0 : i64>]}
// SECOND-SAME: %arg0: tensor<2x4xf32> {oneflow.logical_shape = array<i64: 5, 4>, oneflow.nd_sbp = [#sbp.split<0 : i64>]}
// CHECK-SAME: %arg1: tensor<4x6xf32> {oneflow.logical_shape = array<i64: 4, 6>, oneflow.nd_sbp = [#sbp.broadcast]}
// FIRST: "oneflow.matmul"(%arg0, %arg1) : (tensor<3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
// SECOND: "oneflow.matmul"(%arg0, %arg1) : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
// FIRST: "oneflow.reshape"(%{{.*}}) {shape = array<i64: 3, 2, 3>}
// SECOND: "oneflow.reshape"(%{{.*}}) {shape = array<i64: 2, 2, 3>}
// FIRST: "oneflow.dropout"(%{{.*}}) {logical_begin = array<i64: 0, 0, 0>, logical_shape = array<i64: 5, 2, 3>, rate = 5.000000e-01 : f32}
// SECOND: "oneflow.dropout"(%{{.*}}) {logical_begin = array<i64: 3, 0, 0>, logical_shape = array<i64: 5, 2, 3>, rate = 5.000000e-01 : f32}
func.func @f(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %w: tensor<4x6xf32>) -> tensor<5x2x3xf32> {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<5x4xf32>, tensor<4x6xf32>) -> tensor<5x6xf32>
  %1 = "oneflow.reshape"(%0) {shape = [5, 2, 3]} : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  %2, %mask = "oneflow.dropout"(%1) {rate = 0.5 : f32} : (tensor<5x2x3xf32>) -> (tensor<5x2x3xf32>, tensor<5x2x3xi1>)
  return %2 : tensor<5x2x3xf32>
}

// Calls, control flow, constants and repeated operands.
// CHECK-LABEL: func.func private @callee
// FIRST-SAME: (%arg0: tensor<3xf32>
// SECOND-SAME: (%arg0: tensor<2xf32>
// FIRST-SAME: -> (tensor<3xf32>
// SECOND-SAME: -> (tensor<2xf32>
// CHECK-LABEL: func.func @caller
// CHECK: %[[C:.*]] = arith.constant dense<1.000000e+00> : tensor<5xf32>
// FIRST: "oneflow.narrow"(%[[C]]) {length = 3 : i64}
// SECOND: "oneflow.narrow"(%[[C]]) {length = 2 : i64, start = 3 : i64}
// FIRST: call @callee(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// SECOND: call @callee(%{{.*}}) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK: scf.if
// CHECK: "oneflow.ccl_all_gather"
func.func private @callee(%x: tensor<5xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<5xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func @caller(%p: i1) -> tensor<5xf32> {
  %c = arith.constant dense<1.0> : tensor<5xf32>
  %0 = call @callee(%c) : (tensor<5xf32>) -> tensor<5xf32>
  %1 = scf.if %p -> tensor<5xf32> {
    scf.yield %0 : tensor<5xf32>
  } else {
    scf.yield %c : tensor<5xf32>
  }
  return %1 : tensor<5xf32>
}

// CHECK-LABEL: func.func @repeated
// CHECK: tensor.cast %arg0 : tensor<{{[23]}}x4xf32> to tensor<{{[23]}}x?xf32>
// FIRST: "oneflow.cat"(%{{.*}}) {axis = 1 : i64} : (tensor<3x?xf32>, tensor<3x?xf32>) -> tensor<3x9xf32>
// SECOND: "oneflow.cat"(%{{.*}}) {axis = 1 : i64} : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x9xf32>
func.func @repeated(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<5x5xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<5x9xf32> {
  %0 = "oneflow.cat"(%x, %y) {axis = 1} : (tensor<5x4xf32>, tensor<5x5xf32>) -> tensor<5x9xf32>
  return %0 : tensor<5x9xf32>
}
