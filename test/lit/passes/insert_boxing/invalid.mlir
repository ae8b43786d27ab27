// RUN: oneflow-opt %s --oneflow-insert-boxing --split-input-file --verify-diagnostics

module attributes {oneflow.mesh = array<i64: 2>} {
  // expected-error@below {{func.func: expected oneflow.nd_sbp of argument 0; run oneflow-infer-sbp first}}
  func.func @argument(%x: tensor<8xf32>) {
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @operator(%x: tensor<8xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    // expected-error@below {{oneflow.relu: expected oneflow.in_nd_sbp and oneflow.out_nd_sbp for all operands and results; run oneflow-infer-sbp first}}
    %0 = "oneflow.relu"(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @bool(%x: tensor<8xi1> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    // expected-error@below {{oneflow.logical_not: no boxing leads from S(0) to P for tensor<8xi1>}}
    %0 = "oneflow.logical_not"(%x) {oneflow.in_nd_sbp = [[#sbp.partial_sum]], oneflow.out_nd_sbp = [[#sbp.split<0>]]} : (tensor<8xi1>) -> tensor<8xi1>
    return
  }
}
