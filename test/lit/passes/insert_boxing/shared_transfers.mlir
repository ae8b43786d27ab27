// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2" --oneflow-insert-boxing --canonicalize --cse | FileCheck %s

// Two operators that want one layout share a cast; a third operator reads the result of the cast, not the source.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-2: oneflow.hierarchical_parallel_cast
// CHECK-NOT: oneflow.hierarchical_parallel_cast
// CHECK: return
func.func @shared(%x: tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.partial_sum]})
    -> (tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.broadcast]},
        tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) {
  return %x, %x, %x : tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>
}

// Tensors of a repeated operand are boxed before the cast to the common type of the operand.
// CHECK-LABEL: func.func @repeated
// CHECK-DAG: %[[A:.*]] = "oneflow.hierarchical_parallel_cast"(%arg1) {nd_sbp = [#sbp.split<0 : i64>]
// CHECK-DAG: tensor.cast %arg0 : tensor<6x4xf32> to tensor<6x?xf32>
// CHECK: tensor.cast %[[A]] : tensor<6x5xf32> to tensor<6x?xf32>
func.func @repeated(%x: tensor<6x4xf32> {oneflow.nd_sbp = [#sbp.split<0>]}, %y: tensor<6x5xf32> {oneflow.nd_sbp = [#sbp.split<1>]}) -> tensor<6x9xf32> {
  %0 = "oneflow.cat"(%x, %y) {axis = 1, oneflow.out_nd_sbp = [[#sbp.split<0>]]} : (tensor<6x4xf32>, tensor<6x5xf32>) -> tensor<6x9xf32>
  return %0 : tensor<6x9xf32>
}
