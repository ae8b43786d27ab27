// RUN: not oneflow-opt %s --load-ops %S/Inputs/failing.py --oneflow-infer-sbp 2>&1 | FileCheck %s

// A function of a user's operator that fails is an error of the operation.
// CHECK: failing.mlir:7:{{.*}}: error: oneflow.lit_failing_sbp: its slot sbp ({{.*}}failing.py:{{.*}}): ValueError: nothing is known of it
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "oneflow.lit_failing_sbp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
