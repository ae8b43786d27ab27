// RUN: oneflow-opt %s --oneflow-to-physical --split-input-file --verify-diagnostics
// RUN: not oneflow-opt %s --oneflow-join-boxing="bytes=-1" --split-input-file 2>&1 | FileCheck %s
// CHECK: option bytes: expected 0 or more, got -1

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @other_kinds(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}, %y: tensor<4xf32> {oneflow.nd_sbp = [#sbp.split<0>]})
      -> (tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = [[#sbp.partial_sum]], oneflow.out_nd_sbp = [[#sbp.broadcast]], oneflow.joined = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error@below {{expected casts of one oneflow.joined, 3, to be adjacent and of the same collective, one of all_reduce, all_max, reduce_scatter, all_gather; got all_gather}}
    %1 = "oneflow.hierarchical_parallel_cast"(%y) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = [[#sbp.split<0>]], oneflow.out_nd_sbp = [[#sbp.broadcast]], oneflow.joined = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @not_adjacent(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}, %y: tensor<4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]})
      -> (tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = [[#sbp.partial_sum]], oneflow.out_nd_sbp = [[#sbp.broadcast]], oneflow.joined = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "oneflow.exp"(%0) {oneflow.in_nd_sbp = [[#sbp.broadcast]], oneflow.out_nd_sbp = [[#sbp.broadcast]]} : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error@below {{to be adjacent}}
    %2 = "oneflow.hierarchical_parallel_cast"(%y) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = [[#sbp.partial_sum]], oneflow.out_nd_sbp = [[#sbp.broadcast]], oneflow.joined = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return %1, %2 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @no_number(%x: tensor<4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]}) -> (tensor<4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    // expected-error@below {{expected oneflow.joined to be an integer, got unit}}
    %0 = "oneflow.hierarchical_parallel_cast"(%x) {nd_sbp = [#sbp.broadcast], oneflow.in_nd_sbp = [[#sbp.partial_sum]], oneflow.out_nd_sbp = [[#sbp.broadcast]], oneflow.joined} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
