// RUN: mkdir -p %t.d
// RUN: not oneflow-opt %s --load-ops %S/Inputs/unsound_pass.py --pass-pipeline="builtin.module(lit-unsound,cse)" --reproducer-dir=%t.d 2>&1 | FileCheck %s --check-prefix=EACH
// RUN: not oneflow-opt %s --load-ops %S/Inputs/unsound_pass.py --pass-pipeline="builtin.module(lit-unsound,cse)" --verify-each=true --reproducer-dir=%t.d 2>&1 | FileCheck %s --check-prefix=EACH
// RUN: oneflow-opt %s --load-ops %S/Inputs/unsound_pass.py --pass-pipeline="builtin.module(lit-unsound)" --verify-each=false | FileCheck %s --check-prefix=NEVER

// A pass that leaves an invalid program is named, unless nothing is verified between passes.
// EACH: error: oneflow.transpose: {{.*}}perm
// EACH: lit-unsound
// NEVER: "oneflow.transpose"(%arg0) : (tensor<2x3xf32>) -> tensor<3x2xf32>
func.func @f(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
