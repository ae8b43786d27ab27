// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2" --oneflow-insert-boxing --oneflow-join-boxing="bytes=96" | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2" --oneflow-insert-boxing --oneflow-join-boxing="bytes=96" --oneflow-to-physical="rank=1 check" | FileCheck %s --check-prefix=RANK

// Gradients of 32 and 64 bytes fill the first collective, placed after the second gradient and before the third.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[A:.*]] = "oneflow.reduce_sum"(%arg0)
// CHECK-NEXT: %[[B:.*]] = "oneflow.reduce_sum"(%arg1)
// CHECK-NEXT: %[[SA:.*]] = "oneflow.hierarchical_parallel_cast"(%[[A]]) {{.*}}oneflow.joined = 0 : i64
// CHECK-NEXT: %[[SB:.*]] = "oneflow.hierarchical_parallel_cast"(%[[B]]) {{.*}}oneflow.joined = 0 : i64
// CHECK-NEXT: %[[C:.*]] = "oneflow.reduce_sum"(%arg2)
// CHECK-NEXT: %[[SC:.*]] = "oneflow.hierarchical_parallel_cast"(%[[C]])
// CHECK-NOT: joined
// CHECK: "oneflow.sqrt"(%[[SA]])
// CHECK: "oneflow.sqrt"(%[[SB]])
// CHECK: "oneflow.sqrt"(%[[SC]])
// RANK-LABEL: func.func @gradients
// RANK: %[[A:.*]] = "oneflow.reduce_sum"(%arg0) {axis = array<i32: 0>} : (tensor<2x8xf32>) -> tensor<8xf32>
// RANK: %[[B:.*]] = "oneflow.reduce_sum"(%arg1)
// RANK: %[[SUM:.*]]:2 = "oneflow.ccl_all_reduce"(%{{.*}}, %{{.*}}) {index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>} : (tensor<?xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
// RANK: %[[C:.*]] = "oneflow.reduce_sum"(%arg2)
// RANK: "oneflow.ccl_all_reduce"(%[[C]]) {index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>} : (tensor<4xf32>) -> tensor<4xf32>
func.func @gradients(%x: tensor<5x8xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<5x16xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %z: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]})
    -> (tensor<8xf32>, tensor<16xf32>, tensor<4xf32>) {
  %0 = "oneflow.reduce_sum"(%x) {axis = [0]} : (tensor<5x8xf32>) -> tensor<8xf32>
  %1 = "oneflow.reduce_sum"(%y) {axis = [0]} : (tensor<5x16xf32>) -> tensor<16xf32>
  %2 = "oneflow.reduce_sum"(%z) {axis = [0]} : (tensor<5x4xf32>) -> tensor<4xf32>
  %3 = "oneflow.sqrt"(%0) {oneflow.in_nd_sbp = [[#sbp.broadcast]]} : (tensor<8xf32>) -> tensor<8xf32>
  %4 = "oneflow.sqrt"(%1) {oneflow.in_nd_sbp = [[#sbp.broadcast]]} : (tensor<16xf32>) -> tensor<16xf32>
  %5 = "oneflow.sqrt"(%2) {oneflow.in_nd_sbp = [[#sbp.broadcast]]} : (tensor<4xf32>) -> tensor<4xf32>
  return %3, %4, %5 : tensor<8xf32>, tensor<16xf32>, tensor<4xf32>
}

// A sum that the next sum reads is not delayed; other element types and other kinds are separate collectives.
// CHECK-LABEL: func.func @separate
// CHECK-NOT: oneflow.joined
// CHECK: return
func.func @separate(%x: tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<6x4xf64> {oneflow.nd_sbp = [#sbp.split<0>]})
    -> (tensor<4xf32>, tensor<4xf64>, tensor<f32>, tensor<6x4xf32>) {
  %0 = "oneflow.reduce_sum"(%x) {axis = [0]} : (tensor<6x4xf32>) -> tensor<4xf32>
  %1 = "oneflow.reduce_sum"(%y) {axis = [0]} : (tensor<6x4xf64>) -> tensor<4xf64>
  %2 = "oneflow.broadcast_mul"(%x, %0) {oneflow.in_nd_sbp = [[#sbp.split<0>], [#sbp.broadcast]]} : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = [0, 1]} : (tensor<6x4xf32>) -> tensor<f32>
  return %0, %1, %3, %x : tensor<4xf32>, tensor<4xf64>, tensor<f32>, tensor<6x4xf32>
}

// One collective gathers shards along one axis; collectives stay before the consumers.
// CHECK-LABEL: func.func @shards
// CHECK: "oneflow.exp"(%arg0)
// CHECK: "oneflow.exp"(%arg1)
// CHECK-COUNT-2: oneflow.joined = 0
// CHECK-NEXT: return
// RANK-LABEL: func.func @shards
// RANK: "oneflow.ccl_all_gather"(%{{.*}}, %{{.*}}) {axis = 0 : i64, index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, sizes = array<i64: 2, 1, 1, 1>} : (tensor<1x?xf32>, tensor<1x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>)
func.func @shards(%x: tensor<3x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<2x3xf32> {oneflow.nd_sbp = [#sbp.split<0>]})
    -> (tensor<3x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, tensor<2x3xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
  %0 = "oneflow.exp"(%x) {oneflow.out_nd_sbp = [[#sbp.split<0>]]} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "oneflow.exp"(%y) {oneflow.out_nd_sbp = [[#sbp.split<0>]]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<2x3xf32>
}

// Reduce-scatters join shards by member: `sizes` lists the sizes of the first tensor, then of the next tensor.
// CHECK-LABEL: func.func @scattered
// CHECK-COUNT-2: oneflow.joined = 0
// RANK-LABEL: func.func @scattered
// RANK: "oneflow.ccl_reduce_scatter"(%{{.*}}, %{{.*}}) {axis = 0 : i64, index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, sizes = array<i64: 3, 2, 2, 1>} : (tensor<?xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
// RANK: -> tensor<2xf32>
// RANK: -> tensor<1xf32>
func.func @scattered(%x: tensor<2x5xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<2x3xf32> {oneflow.nd_sbp = [#sbp.split<0>]})
    -> (tensor<5xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, tensor<3xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
  %0 = "oneflow.reduce_sum"(%x) {axis = [0]} : (tensor<2x5xf32>) -> tensor<5xf32>
  %1 = "oneflow.reduce_sum"(%y) {axis = [0]} : (tensor<2x3xf32>) -> tensor<3xf32>
  %2 = "oneflow.sqrt"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %3 = "oneflow.sqrt"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  return %2, %3 : tensor<5xf32>, tensor<3xf32>
}
