// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto mesh=2" -o %t.default.mlir
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto mesh=2 time-limit=30" -o %t.long.mlir
// RUN: diff %t.default.mlir %t.long.mlir
// RUN: FileCheck %s --check-prefix=FOUND --input-file %t.long.mlir
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto mesh=2 time-limit=0" | FileCheck %s --check-prefix=NONE

// With time the second weight is split, and partial sums are added up once. A solver without any time finds nothing;
// then nodes are eliminated one by one, at the same cost.
// FOUND-LABEL: func.func @mlp
// FOUND-SAME: %arg2: tensor<32x4xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]}
// FOUND: "oneflow.gelu"
// FOUND: "oneflow.matmul"
// FOUND-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}
// NONE-LABEL: func.func @mlp
// NONE: "oneflow.gelu"
// NONE: "oneflow.matmul"
// NONE-SAME: oneflow.in_nd_sbp = {{\[\[}}#sbp.split<1 : i64>], [#sbp.split<0 : i64>]]
// NONE-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}
func.func @mlp(%x: tensor<16x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]},
               %w: tensor<4x32xf32> {oneflow.nd_sbp = [#sbp.split<1>]}, %v: tensor<32x4xf32>)
    -> (tensor<16x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %1 = "oneflow.gelu"(%0) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %2 = "oneflow.matmul"(%1, %v) : (tensor<16x32xf32>, tensor<32x4xf32>) -> tensor<16x4xf32>
  return %2 : tensor<16x4xf32>
}
