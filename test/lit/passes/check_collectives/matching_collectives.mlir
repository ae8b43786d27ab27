// RUN: oneflow-opt %s --oneflow-infer-sbp="mesh=2,2" --oneflow-insert-boxing --oneflow-check-collectives | FileCheck %s

// Groups along the second mesh axis have shards of different sizes.
// CHECK-LABEL: func.func @gathered
// CHECK: oneflow.hierarchical_parallel_cast
func.func @gathered(%x: tensor<5x7xf32> {oneflow.nd_sbp = [#sbp.split<0>, #sbp.split<1>]})
    -> (tensor<5x7xf32> {oneflow.nd_sbp = [#sbp.split<0>, #sbp.broadcast]}) {
  return %x : tensor<5x7xf32>
}
