// RUN: oneflow-opt %s --oneflow-to-physical="rank=1" --split-input-file --verify-diagnostics

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @unboxed(%x: tensor<8xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    // expected-error@below {{oneflow.relu: expected operands in the layouts of the signature; run oneflow-insert-boxing first}}
    %0 = "oneflow.relu"(%x) {oneflow.in_nd_sbp = [[#sbp.broadcast]], oneflow.out_nd_sbp = [[#sbp.broadcast]]}
      : (tensor<8xf32>) -> tensor<8xf32>
    return
  }
}

// -----

// expected-error@unknown {{option rank: expected one of the 1 ranks of the mesh, got 1}}
module attributes {oneflow.mesh = array<i64: 1>} {
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @unsound(%x: tensor<4x6xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) {
    // expected-error@below {{oneflow.transpose: on one rank, expected result 0 of type tensor<3x4xf32>, got tensor<6x2xf32>}}
    %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>, oneflow.in_nd_sbp = [[#sbp.split<0>]], oneflow.out_nd_sbp = [[#sbp.split<0>]]}
      : (tensor<4x6xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func private @callee(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) -> (tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    return %x : tensor<4xf32>
  }
  func.func @value(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) -> (tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    // expected-error@below {{expected calls of functions by name, got one taken as a value}}
    %f = func.constant @callee : (tensor<4xf32>) -> tensor<4xf32>
    %0 = call_indirect %f(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
