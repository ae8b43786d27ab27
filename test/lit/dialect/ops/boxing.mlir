// RUN: oneflow-opt %s --split-input-file --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --split-input-file --oneflow-infer-types --oneflow-infer-sbp --oneflow-insert-boxing \
// RUN:   | FileCheck %s --check-prefix=BOXED

// Collectives along one mesh axis; each collective equals the casts between the stated layouts.
// CHECK-LABEL: func.func @logical(
// CHECK-SAME: -> tensor<8x4xf32>
// BOXED-LABEL: func.func @logical(
module attributes {oneflow.mesh = array<i64: 4>} {
  func.func @logical(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) -> tensor<*xf32> {
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %0 = "oneflow.nccl_logical_all_reduce"(%x) {src_reduced_nd_sbp = ["P"], dst_reduced_nd_sbp = ["B"]}
      : (tensor<8x4xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    %1 = "oneflow.nccl_logical_reduce_scatter"(%0) {src_reduced_nd_sbp = ["P"], dst_reduced_nd_sbp = ["S(0)"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<1 : i64>]
    %2 = "oneflow.nccl_logical_s2s"(%1) {src_reduced_nd_sbp = ["S(0)"], dst_reduced_nd_sbp = ["S(1)"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %3 = "oneflow.nccl_logical_all_gather_noncontinuous"(%2) {src_reduced_nd_sbp = ["S(1)"], dst_reduced_nd_sbp = ["B"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<1 : i64>]
    %4 = "oneflow.nccl_logical_reduce_scatter_noncontinuous"(%3) {src_reduced_nd_sbp = ["P"], dst_reduced_nd_sbp = ["S(1)"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    %5 = "oneflow.nccl_logical_send_recv"(%4) {src_reduced_nd_sbp = ["S(1)"], dst_reduced_nd_sbp = ["S(0)"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %6 = "oneflow.nccl_logical_all_gather"(%5) {src_reduced_nd_sbp = ["S(0)"], dst_reduced_nd_sbp = ["B"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NOT: eager_
    // BOXED-NOT: nccl_
    // BOXED: return
    return %6 : tensor<*xf32>
  }
}

// -----

// Collectives along one of two mesh axes.
// CHECK-LABEL: func.func @grid(
// CHECK-SAME: -> tensor<8x4xf32>
// BOXED-LABEL: func.func @grid(
module attributes {oneflow.mesh = array<i64: 2, 2>} {
  func.func @grid(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum, #sbp.partial_sum]}) -> tensor<*xf32> {
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum, #sbp.broadcast]
    %0 = "oneflow.nccl_logical_2d_same_dim0_all_reduce"(%x) {src_reduced_nd_sbp = ["P", "P"], dst_reduced_nd_sbp = ["P", "B"]}
      : (tensor<8x4xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum, #sbp.split<1 : i64>]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast, #sbp.split<1 : i64>]
    %1 = "oneflow.nccl_logical_2d_same_dim1_all_reduce"(%0) {src_reduced_nd_sbp = ["P", "S(1)"], dst_reduced_nd_sbp = ["B", "S(1)"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast, #sbp.split<0 : i64>]
    %2 = "oneflow.nccl_logical_2d_same_dim0_all2all"(%1) {src_reduced_nd_sbp = ["B", "S(1)"], dst_reduced_nd_sbp = ["B", "S(0)"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast, #sbp.broadcast]
    %3 = "oneflow.nccl_logical_2d_same_dim0_all_gather"(%2) {src_reduced_nd_sbp = ["B", "S(0)"], dst_reduced_nd_sbp = ["B", "B"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>, #sbp.split<1 : i64>]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>, #sbp.broadcast]
    %4 = "oneflow.nccl_logical_2d_same_dim0_all_gather_noncontinuous"(%3) {src_reduced_nd_sbp = ["S(0)", "S(1)"], dst_reduced_nd_sbp = ["S(0)", "B"]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NOT: eager_
    // BOXED-NOT: nccl_
    // BOXED: return
    return %4 : tensor<*xf32>
  }
}

// -----

// Collectives of OneFlow's eager mode.
// CHECK-LABEL: func.func @eager(
// CHECK-SAME: -> tensor<8x4xf32>
// BOXED-LABEL: func.func @eager(
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @eager(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) -> tensor<*xf32> {
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %0 = "oneflow.eager_p_to_b"(%x) {in_parallel_conf = "device_name: \"@0:0-1\"", out_parallel_conf = "device_name: \"@0:0-1\"", shape = [8, 4]}
      : (tensor<8x4xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<1 : i64>]
    %1 = "oneflow.eager_b_to_s"(%0) {out_split_axis = 1 : si64, in_parallel_conf = "device_name: \"@0:0-1\"", out_parallel_conf = "device_name: \"@0:0-1\"", shape = [8, 4]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    %2 = "oneflow.eager_naive_s_to_s"(%1) {in_split_axis = 1 : si64, out_split_axis = 0 : si64, in_parallel_conf = "device_name: \"@0:0-1\"", out_parallel_conf = "device_name: \"@0:0-1\"", shape = [8, 4]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    %3 = "oneflow.eager_s_to_p"(%2) {in_split_axis = 0 : si64, in_parallel_conf = "device_name: \"@0:0-1\"", out_parallel_conf = "device_name: \"@0:0-1\"", shape = [8, 4]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    %4 = "oneflow.eager_p_to_s"(%3) {out_split_axis = 0 : si64, in_parallel_conf = "device_name: \"@0:0-1\"", out_parallel_conf = "device_name: \"@0:0-1\"", shape = [8, 4]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %5 = "oneflow.eager_s_to_b"(%4) {in_split_axis = 0 : si64, in_parallel_conf = "device_name: \"@0:0-1\"", out_parallel_conf = "device_name: \"@0:0-1\"", shape = [8, 4]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    %6 = "oneflow.eager_symmetric_s_to_p"(%5) {in_split_axis = 0 : si64, parallel_conf = "device_name: \"@0:0-1\""}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %7 = "oneflow.eager_ccl_all_reduce"(%6) {parallel_conf = "device_name: \"@0:0-1\""}
      : (tensor<*xf32>) -> tensor<*xf32>
    %8 = "oneflow.eager_ccl_broadcast"(%7) {parallel_conf = "device_name: \"@0:0-1\"", shape_list = [[8, 4]]}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<1 : i64>]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    %9 = "oneflow.eager_ccl_s2s"(%8) {in_split_axis = 1 : si64, out_split_axis = 0 : si64, parallel_conf = "device_name: \"@0:0-1\""}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    %10 = "oneflow.eager_ccl_all_gather"(%9) {parallel_conf = "device_name: \"@0:0-1\"", output_shape = [8, 4], output_dtype = f32}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.split<0 : i64>]
    %11 = "oneflow.eager_ccl_reduce_scatter"(%10) {parallel_conf = "device_name: \"@0:0-1\"", output_shape = [4, 4], output_dtype = f32}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.broadcast]
    // BOXED-NEXT: "oneflow.hierarchical_parallel_cast"{{.*}}{nd_sbp = [#sbp.partial_sum]
    %12 = "oneflow.eager_ccl_reduce"(%11) {parallel_conf = "device_name: \"@0:0-1\""}
      : (tensor<*xf32>) -> tensor<*xf32>
    // BOXED-NOT: eager_
    // BOXED-NOT: nccl_
    // BOXED: return
    return %12 : tensor<*xf32>
  }
}

// -----

// Several collectives at once.
// CHECK-LABEL: func.func @fusion(
// CHECK-SAME: -> (tensor<8x4xf32>, tensor<8xf32>)
// CHECK: "oneflow.nccl_logical_fusion"
// BOXED-LABEL: func.func @fusion(
module attributes {oneflow.mesh = array<i64: 2, 2>} {
  func.func @fusion(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<1>, #sbp.partial_sum]},
                    %y: tensor<8xf32> {oneflow.nd_sbp = [#sbp.partial_sum, #sbp.split<0>]})
      -> (tensor<*xf32>, tensor<*xf32>) {
    // BOXED: %[[X:.*]] = "oneflow.hierarchical_parallel_cast"(%arg0) {nd_sbp = [#sbp.split<1 : i64>, #sbp.broadcast]
    // BOXED-NEXT: %[[Y:.*]] = "oneflow.hierarchical_parallel_cast"(%arg1) {nd_sbp = [#sbp.broadcast, #sbp.split<0 : i64>]
    // BOXED-NOT: parallel_cast
    // BOXED: return
    %0:2 = "oneflow.nccl_logical_fusion"(%x, %y) {src_nd_sbp_str_list = ["S(1),P", "P,S(0)"],
      dst_nd_sbp_str_list = ["S(1),B", "B,S(0)"],
      nccl_type_list = ["_nccl_logical_2D_same_dim0_all_reduce", "_nccl_logical_2D_same_dim1_all_reduce"]}
      : (tensor<8x4xf32>, tensor<8xf32>) -> (tensor<*xf32>, tensor<*xf32>)
    return %0#0, %0#1 : tensor<*xf32>, tensor<*xf32>
  }
}

// -----

// The names that OneFlow's programs have; MLIR takes neither the underscore nor the upper-case letter.
// CHECK-LABEL: func.func @names(
// CHECK: "oneflow.nccl_logical_2d_same_dim0_all_reduce"
module attributes {oneflow.mesh = array<i64: 2, 2>} {
  func.func @names(%x: tensor<8x4xf32>) -> tensor<*xf32> {
    %0 = "oneflow._nccl_logical_2D_same_dim0_all_reduce"(%x) {src_reduced_nd_sbp = ["B", "P"],
      dst_reduced_nd_sbp = ["B", "B"]} : (tensor<8x4xf32>) -> tensor<*xf32>
    return %0 : tensor<*xf32>
  }
}
