// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// A cast of the layout changes no type.
// CHECK-LABEL: func.func @cast(
// CHECK-SAME: -> (tensor<4x6xf32>, tensor<4x?xi8>)
func.func @cast(%x: tensor<4x6xf32>, %n: tensor<4x?xi8>) -> (tensor<*xf32>, tensor<*xi8>) {
  // CHECK: nd_sbp = [#sbp.split<0 : i64>]
  %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = ["S(0)"]} : (tensor<4x6xf32>) -> tensor<*xf32>
  // CHECK: grad_mode = "manual", grad_nd_sbp = [#sbp.broadcast], nd_sbp = [#sbp.split<1 : i64>]
  %1 = "oneflow.hierarchical_parallel_cast"(%n) {nd_sbp = ["S(1)"], grad_mode = "manual", grad_nd_sbp = ["B"]}
    : (tensor<4x?xi8>) -> tensor<*xi8>
  return %0, %1 : tensor<*xf32>, tensor<*xi8>
}

// Member 1 of 2; shards of 5 rows are 3 and 2.
// CHECK-LABEL: func.func @collectives(
// CHECK-SAME: -> (tensor<5x4xf32>, tensor<2x4xf32>, tensor<5x4xf32>, tensor<5x2xf32>)
func.func @collectives(%whole: tensor<5x4xf32>, %shard: tensor<2x4xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.ccl_all_reduce"(%whole) {mesh_axes = [0 : si32], members = 2 : si64, index = 1 : si64}
    : (tensor<5x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.ccl_reduce_scatter"(%whole) {axis = 0 : si64, sizes = [3, 2], mesh_axes = [0 : si32],
    members = 2 : si64, index = 1 : si64} : (tensor<5x4xf32>) -> tensor<*xf32>
  %2 = "oneflow.ccl_all_gather"(%shard) {axis = 0 : si64, sizes = [3, 2], mesh_axes = [0 : si32],
    members = 2 : si64, index = 1 : si64} : (tensor<2x4xf32>) -> tensor<*xf32>
  %3 = "oneflow.ccl_all_to_all"(%shard) {in_axis = 0 : si64, in_sizes = [3, 2], out_axis = 1 : si64,
    out_sizes = [2, 2], mesh_axes = [0 : si32], members = 2 : si64, index = 1 : si64}
    : (tensor<2x4xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// Rows become columns: member 0 of 2 has 3 of 5 rows, and gets 2 of 4 columns.
// CHECK-LABEL: func.func @moved(
// CHECK-SAME: -> tensor<5x2xf16>
func.func @moved(%x: tensor<3x4xf16>) -> tensor<*xf16> {
  // CHECK: "oneflow.ccl_send_recv"{{.*}} : (tensor<3x4xf16>) -> tensor<5x2xf16>
  %0 = "oneflow.ccl_send_recv"(%x) {shape = [5, 4], mesh = [2], src_nd_sbp = ["S(0)"], dst_nd_sbp = ["S(1)"],
    mesh_axes = [0 : si32], members = 2 : si64} : (tensor<3x4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// A root gives or gets the whole; the type is the same on every member.
// CHECK-LABEL: func.func @roots(
func.func @roots(%x: tensor<3x4xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  // CHECK: "oneflow.ccl_reduce"{{.*}}root = 1 : i64{{.*}} : (tensor<3x4xf16>) -> tensor<3x4xf16>
  %0 = "oneflow.ccl_reduce"(%x) {root = 1 : si64, mesh_axes = [0 : si32], members = 2 : si64}
    : (tensor<3x4xf16>) -> tensor<*xf16>
  // CHECK: "oneflow.ccl_broadcast"{{.*}} : (tensor<3x4xf16>) -> tensor<3x4xf16>
  %1 = "oneflow.ccl_broadcast"(%x) {root = 1 : si64, mesh_axes = [0 : si32], members = 2 : si64}
    : (tensor<3x4xf16>) -> tensor<*xf16>
  return %0, %1 : tensor<*xf16>, tensor<*xf16>
}

// From two ranks to a third rank, which has no data before; a gradient is sent back to the ranks of its value.
// CHECK-LABEL: func.func @between_placements(
// CHECK-SAME: -> (tensor<5x4xf32>, tensor<5x4xf32>)
func.func @between_placements(%nothing: tensor<0xf32>, %like: tensor<5x4xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.ccl_send_recv"(%nothing) {shape = [5, 4], mesh = [2], src_nd_sbp = ["S(0)"], src_members = [0, 1],
    dst_mesh = [1], dst_nd_sbp = ["B"], dst_members = [2], mesh_axes = [], members = 3, index = 2, ranks = [1, 5, 6]}
    : (tensor<0xf32>) -> tensor<*xf32>
  %1 = "oneflow.hierarchical_parallel_cast_like"(%0, %like) {nd_sbp = ["B"]} : (tensor<*xf32>, tensor<5x4xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @parallel_cast(
// CHECK: "oneflow.parallel_cast"({{.*}}) {grad_sbp_parallel = "B", sbp_parallel = "S(0)"} : (tensor<4x3xf16>) -> tensor<4x3xf16>
func.func @parallel_cast(%arg0: tensor<4x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.parallel_cast"(%arg0) {grad_sbp_parallel = "B", sbp_parallel = "S(0)"} : (tensor<4x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
