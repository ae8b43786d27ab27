// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-sbp --oneflow-insert-boxing --oneflow-to-physical="rank=1 check" | FileCheck %s --check-prefix=RANK

module attributes {oneflow.mesh = array<i64: 2>} {
  // CHECK-LABEL: func.func @p_to_b
  // CHECK: hierarchical_parallel_cast"(%arg0) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}, oneflow.out_nd_sbp = {{\[\[}}#sbp.broadcast{{\]\]}}} : (tensor<5x4xf32>) -> tensor<5x4xf32>
  // CHECK-NEXT: return
  // RANK-LABEL: func.func @p_to_b
  // RANK: %[[P:.*]] = "oneflow.ccl_all_reduce"(%arg0) {index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>} : (tensor<5x4xf32>) -> tensor<5x4xf32>
  // RANK-NEXT: return %[[P]]
  func.func @p_to_b(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    return %x : tensor<5x4xf32>
  }

  // RANK-LABEL: func.func @p_to_s
  // RANK: "oneflow.ccl_reduce_scatter"(%arg0) {axis = 0 : i64, index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, sizes = array<i64: 3, 2>} : (tensor<5x4xf32>) -> tensor<2x4xf32>
  func.func @p_to_s(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    return %x : tensor<5x4xf32>
  }

  // RANK-LABEL: func.func @s_to_b
  // RANK: "oneflow.ccl_all_gather"(%arg0) {axis = 0 : i64, index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, sizes = array<i64: 3, 2>} : (tensor<2x4xf32>) -> tensor<5x4xf32>
  func.func @s_to_b(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    return %x : tensor<5x4xf32>
  }

  // RANK-LABEL: func.func @s_to_s
  // RANK: "oneflow.ccl_all_to_all"(%arg0) {in_axis = 0 : i64, in_sizes = array<i64: 3, 2>, index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, out_axis = 1 : i64, out_sizes = array<i64: 2, 2>} : (tensor<2x4xf32>) -> tensor<5x2xf32>
  func.func @s_to_s(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) {
    return %x : tensor<5x4xf32>
  }

  // RANK-LABEL: func.func @b_to_s
  // RANK: "oneflow.narrow"(%arg0) {dim = 1 : i64, length = 2 : i64, start = 2 : i64} : (tensor<5x4xf32>) -> tensor<5x2xf32>
  func.func @b_to_s(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) {
    return %x : tensor<5x4xf32>
  }

  // RANK-LABEL: func.func @s_to_p
  // RANK: "oneflow.pad"(%arg0) {padding_after = array<i64: 0, 0>, padding_before = array<i64: 3, 0>} : (tensor<2x4xf32>) -> tensor<5x4xf32>
  func.func @s_to_p(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) {
    return %x : tensor<5x4xf32>
  }

  // RANK-LABEL: func.func @b_to_p
  // RANK: "oneflow.zero_like"(%arg0)
  func.func @b_to_p(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) {
    return %x : tensor<5x4xf32>
  }

  // Partial maxima are reduced before a use of the whole; every other layout is made from the whole.
  // CHECK-LABEL: func.func @m_to_b
  // CHECK: %[[M:.*]] = "oneflow.reduce_max"(%arg0) {{.*}}oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_max{{\]\]}}
  // CHECK-NEXT: hierarchical_parallel_cast"(%[[M]]) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = {{\[\[}}#sbp.partial_max{{\]\]}}, oneflow.out_nd_sbp = {{\[\[}}#sbp.broadcast{{\]\]}}}
  // CHECK-NEXT: return
  // RANK-LABEL: func.func @m_to_b
  // RANK: %[[M:.*]] = "oneflow.reduce_max"(%arg0)
  // RANK-NEXT: %[[W:.*]] = "oneflow.ccl_all_reduce"(%[[M]]) {index = 1 : i64, members = 2 : i64, mesh_axes = array<i32: 0>, reduce_type = "max"} : (tensor<5xf32>) -> tensor<5xf32>
  // RANK-NEXT: return %[[W]]
  func.func @m_to_b(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> (tensor<5xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    %0 = "oneflow.reduce_max"(%x) {axis = [1 : si32]} : (tensor<5x4xf32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }

  // RANK-LABEL: func.func @m_to_s
  // RANK: %[[M:.*]] = "oneflow.reduce_max"(%arg0)
  // RANK-NEXT: %[[W:.*]] = "oneflow.ccl_all_reduce"(%[[M]]) {{.*}}reduce_type = "max"
  // RANK-NEXT: "oneflow.narrow"(%[[W]]) {length = 2 : i64, start = 3 : i64} : (tensor<5xf32>) -> tensor<2xf32>
  func.func @m_to_s(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> (tensor<5xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    %0 = "oneflow.reduce_max"(%x) {axis = [1 : si32]} : (tensor<5x4xf32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }

  // RANK-LABEL: func.func @m_to_p
  // RANK: %[[M:.*]] = "oneflow.reduce_max"(%arg0)
  // RANK-NEXT: "oneflow.ccl_all_reduce"(%[[M]]) {{.*}}reduce_type = "max"
  // RANK-NEXT: "oneflow.zero_like"
  func.func @m_to_p(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> (tensor<5xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) {
    %0 = "oneflow.reduce_max"(%x) {axis = [1 : si32]} : (tensor<5x4xf32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }

  // CHECK-LABEL: func.func @same
  // CHECK-NEXT: return
  func.func @same(%x: tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> (tensor<5x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    return %x : tensor<5x4xf32>
  }
}
