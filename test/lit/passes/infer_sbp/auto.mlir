// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto mesh=2" | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto mesh=2 memory=3e-6" | FileCheck %s --check-prefix=MEMORY

// The second weight is chosen to be split as the first product leaves its columns (Megatron's MLP).
// CHECK: module attributes {oneflow.mesh = array<i64: 2>}
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: %arg2: tensor<32x4xf32> {oneflow.nd_sbp = [#sbp.split<0 : i64>]}
// CHECK: "oneflow.matmul"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.split<1 : i64>{{\]\]}}
// CHECK: "oneflow.gelu"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.split<1 : i64>{{\]\]}}
// CHECK: "oneflow.matmul"
// CHECK-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.partial_sum{{\]\]}}
// MEMORY: %arg2: tensor<32x4xf32> {oneflow.nd_sbp = [#sbp.split<{{.}} : i64>]}
func.func @mlp(%x: tensor<16x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]},
               %w: tensor<4x32xf32> {oneflow.nd_sbp = [#sbp.split<1>]}, %v: tensor<32x4xf32>)
    -> (tensor<16x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
  %0 = "oneflow.matmul"(%x, %w) : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %1 = "oneflow.gelu"(%0) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %2 = "oneflow.matmul"(%1, %v) : (tensor<16x32xf32>, tensor<32x4xf32>) -> tensor<16x4xf32>
  return %2 : tensor<16x4xf32>
}
