// RUN: oneflow-opt %s --oneflow-infer-sbp --split-input-file | FileCheck %s

// Rows of x are split, and so are the rows of all tensors computed from x; unannotated arguments are whole.
// CHECK-LABEL: func.func @data_parallel
// CHECK-SAME: %arg0: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]}
// CHECK-SAME: %arg1: tensor<4x6xf32> {oneflow.nd_sbp = [#sbp.broadcast]}
// CHECK-SAME: -> (tensor<8x6xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]})
// CHECK: "oneflow.matmul"
// CHECK-SAME: {oneflow.in_nd_sbp = {{\[\[}}#sbp.split<0 : i64>], [#sbp.broadcast{{\]\]}}, oneflow.out_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}}
// CHECK: "oneflow.relu"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @data_parallel(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %w: tensor<4x6xf32>) -> tensor<8x6xf32> {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = "oneflow.relu"(%0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// The contracted dimension is split: partial sums, which relu does not take.
// CHECK-LABEL: func.func @partial_sums
// CHECK: "oneflow.matmul"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}
// CHECK: "oneflow.scalar_mul"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}
// CHECK: "oneflow.relu"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @partial_sums(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]},
                          %w: tensor<4x6xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<8x6xf32> {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = "oneflow.scalar_mul"(%0) {float_operand = 2.0, has_float_operand = true} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = "oneflow.relu"(%1) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %2 : tensor<8x6xf32>
  }
}

// -----

// A mesh of two axes: rows along the first, columns along the second.
// CHECK-LABEL: func.func @two_axes
// CHECK: "oneflow.matmul"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.split<0 : i64>, #sbp.split<1 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2, 2>} {
  func.func @two_axes(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<0>, #sbp.broadcast]},
                      %w: tensor<4x6xf32> {oneflow.nd_sbp = [#sbp.broadcast, #sbp.split<1>]}) -> tensor<8x6xf32> {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// The annotation of an operator is kept; a returned partial sum is reduced.
// CHECK-LABEL: func.func @constrained
// CHECK-SAME: -> (tensor<8x6xf32> {oneflow.nd_sbp = [#sbp.broadcast]})
// CHECK: "oneflow.matmul"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @constrained(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %w: tensor<4x6xf32>) -> tensor<8x6xf32> {
    %0 = "oneflow.matmul"(%x, %w) {oneflow.out_nd_sbp = [[#sbp.partial_sum]]}
      : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}

// -----

// A call takes operands in the layouts of the callee; control flow computes on whole tensors.
// CHECK-LABEL: func.func private @callee
// CHECK-SAME: -> (tensor<8xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]})
// CHECK-LABEL: func.func @caller
// CHECK-SAME: %arg1: tensor<8xf32> {oneflow.nd_sbp = [#sbp.broadcast]}
// CHECK: call @callee
// CHECK: "oneflow.tanh"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}
// CHECK: scf.if
// CHECK: "oneflow.relu"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.broadcast{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func private @callee(%x: tensor<8xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<8xf32> {
    %0 = "oneflow.exp"(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @caller(%p: i1, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = call @callee(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "oneflow.tanh"(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = scf.if %p -> tensor<8xf32> {
      %3 = "oneflow.relu"(%x) : (tensor<8xf32>) -> tensor<8xf32>
      scf.yield %3 : tensor<8xf32>
    } else {
      scf.yield %1 : tensor<8xf32>
    }
    return %1, %2 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// OneFlow's strings, and casts.
// CHECK-LABEL: func.func @cast
// CHECK: "oneflow.hierarchical_parallel_cast"(%arg0) {grad_mode = "identity", nd_sbp = [#sbp.split<1 : i64>]
// CHECK: "oneflow.relu"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.split<1 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @cast(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = ["S(1)"], grad_mode = "identity"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = "oneflow.relu"(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}

// -----

// Four heads stay split over two devices; three devices do not divide them, so rows are split.
// CHECK-LABEL: func.func @heads
// CHECK: "oneflow.reshape"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.split<1 : i64>{{\]\]}}, oneflow.out_nd_sbp = {{\[\[}}#sbp.split<1 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @heads(%x: tensor<6x8xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<6x4x2xf32> {
    %0 = "oneflow.reshape"(%x) {shape = [6, 4, 2]} : (tensor<6x8xf32>) -> tensor<6x4x2xf32>
    return %0 : tensor<6x4x2xf32>
  }
}

// -----

// CHECK-LABEL: func.func @heads_that_do_not_divide
// CHECK: "oneflow.reshape"
// CHECK-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}, oneflow.out_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 3>} {
  func.func @heads_that_do_not_divide(%x: tensor<6x8xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<6x4x2xf32> {
    %0 = "oneflow.reshape"(%x) {shape = [6, 4, 2]} : (tensor<6x8xf32>) -> tensor<6x4x2xf32>
    return %0 : tensor<6x4x2xf32>
  }
}

// -----

// A gradient in the layout of the value keeps the layout, unless the program states another layout.
// CHECK-LABEL: func.func @gradients_where_values_lie
// CHECK: %[[G:.*]] = "oneflow.relu"
// CHECK-NEXT: %[[S:.*]] = "oneflow.hierarchical_parallel_cast"(%[[G]]) {{{.*}}nd_sbp = [#sbp.split<0 : i64>]
// CHECK-NEXT: return %[[G]], %[[S]]
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @gradients_where_values_lie(%x: tensor<8x4xf32>, %g: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]})
      -> (tensor<8x4xf32>, tensor<8x4xf32>) {
    %0 = "oneflow.relu"(%g) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = "oneflow.hierarchical_parallel_cast_like"(%0, %x) {nd_sbp = ["S(0)"]}
      : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "oneflow.hierarchical_parallel_cast_like"(%0, %x) {nd_sbp = ["S(0)"], stated = true}
      : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

// A cast of OneFlow's one-dimensional meshes is the cast of the one axis; an empty layout states nothing.
// CHECK-LABEL: func.func @plain_cast
// CHECK: %[[C:.*]] = "oneflow.hierarchical_parallel_cast"(%arg0) {{{.*}}nd_sbp = [#sbp.split<0 : i64>]
// CHECK-NOT: parallel_cast
// CHECK: "oneflow.relu"(%[[C]]) {oneflow.in_nd_sbp = {{\[\[}}#sbp.split<0 : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @plain_cast(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = "oneflow.parallel_cast"(%x) {sbp_parallel = "S(0)", grad_sbp_parallel = ""} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = "oneflow.parallel_cast"(%0) {sbp_parallel = "", grad_sbp_parallel = "B"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "oneflow.relu"(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}
