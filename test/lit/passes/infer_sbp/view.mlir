// RUN: oneflow-opt %s --oneflow-infer-sbp --view-sbp %t.html > %t.mlir
// RUN: FileCheck %s --input-file %t.html
// RUN: oneflow-opt %s --oneflow-infer-sbp="view=%t.2.html" > %t.mlir
// RUN: FileCheck %s --input-file %t.2.html
// RUN: not oneflow-opt %s --canonicalize --view-sbp %t.html 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not oneflow-opt %s --oneflow-infer-sbp --view-sbp %t.none/x.html 2>&1 | FileCheck %s --check-prefix=FOLDER

// ALONE: error: --view-sbp: expected the pass --oneflow-infer-sbp, whose choice is drawn
// FOLDER: error: option view: {{.*}}No such file or directory

// CHECK: <h2>@f on a mesh of 2</h2>
// CHECK: <tr><td>all_reduce</td><td>1</td><td>512</td></tr>
// CHECK: all_reduce P -&gt; B, 512 bytes
// CHECK: * S(1), S(0) -&gt; P: order -20, 0 bytes
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @f(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]}, %w: tensor<4x8xf32> {oneflow.nd_sbp = [#sbp.split<0>]})
      -> (tensor<8x8xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
