// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing --oneflow-to-physical="rank=2 check" | FileCheck %s --check-prefix=RANK

module attributes {oneflow.mesh = array<i64: 2, 2>} {
  // Both axes are reduced at once.
  // RANK-LABEL: func.func @reduce
  // RANK: "oneflow.ccl_all_reduce"(%arg0) {index = 2 : i64, members = 4 : i64, mesh_axes = array<i32: 0, 1>}
  // RANK-NOT: ccl
  func.func @reduce(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum, #sbp.partial_sum]})
      -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast, #sbp.broadcast]}) {
    return %x : tensor<5x4xf32>
  }

  // One axis changes, the other keeps its shards.
  // RANK-LABEL: func.func @gather
  // RANK: "oneflow.ccl_all_gather"(%arg0) {axis = 0 : i64, index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, sizes = array<i64: 3, 2>} : (tensor<2x2xf32>) -> tensor<5x2xf32>
  func.func @gather(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>, #sbp.split<1>]})
      -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast, #sbp.split<1>]}) {
    return %x : tensor<5x4xf32>
  }

  // No single axis can change: an exchange between all ranks.
  // CHECK-LABEL: func.func @swap
  // CHECK: hierarchical_parallel_cast"(%arg0) {nd_sbp = [#sbp.split<1 : i64>, #sbp.split<0 : i64>]
  // CHECK-NEXT: return
  // RANK-LABEL: func.func @swap
  // RANK: "oneflow.ccl_send_recv"(%arg0) {dst_nd_sbp = [#sbp.split<1 : i64>, #sbp.split<0 : i64>], index = 2 : i64, members = 4 : i64, mesh = array<i64: 2, 2>, mesh_axes = array<i32: 0, 1>, shape = array<i64: 5, 4>, src_nd_sbp = [#sbp.split<0 : i64>, #sbp.split<1 : i64>]} : (tensor<2x2xf32>) -> tensor<3x2xf32>
  func.func @swap(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>, #sbp.split<1>]})
      -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<1>, #sbp.split<0>]}) {
    return %x : tensor<5x4xf32>
  }

  // Two steps: a reduction along the first axis, then a gathering along the second.
  // CHECK-LABEL: func.func @two_steps
  // CHECK: %[[A:.*]] = "oneflow.hierarchical_parallel_cast"(%arg0)
  // CHECK-NEXT: %[[B:.*]] = "oneflow.hierarchical_parallel_cast"(%[[A]]) {nd_sbp = [#sbp.broadcast, #sbp.broadcast]
  // CHECK-NEXT: return %[[B]]
  func.func @two_steps(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum, #sbp.split<1>]})
      -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast, #sbp.broadcast]}) {
    return %x : tensor<5x4xf32>
  }
}
