// RUN: %python -c "import numpy as np; np.savez(r'%t.npz', x=np.arange(15).reshape(5, 3).astype('f'), w=np.eye(3, dtype='f'))"
// RUN: oneflow-run %s --input %t.npz --simulate | FileCheck %s
// RUN: oneflow-run %s --input %t.npz --nproc 2 | FileCheck %s
// RUN: oneflow-run %s --input %t.npz --nproc 4 --mesh 4 --sbp=auto --time=1 2>&1 | FileCheck %s
// RUN: oneflow-run %s --input %t.npz --simulate --print-ir-after=physical | FileCheck %s --check-prefix=RANK
// RUN: not oneflow-run %s --input %t.npz 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not oneflow-run %s --input %t.npz --nproc 3 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not oneflow-run %s --input %t.npz --nproc 2 --simulate 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not oneflow-run %s --nproc 2 2>&1 | FileCheck %s --check-prefix=MISSING

// Any number of ranks prints the whole result once, or one message.

// CHECK: y: float32[3]
// CHECK-NEXT: {{\[}}30. 35. 40.]
// CHECK-NOT: y:
// RANK: "oneflow.matmul"({{.*}}) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
// RANK: "oneflow.ccl_reduce_scatter"
// ALONE: oneflow-run: error: expected 2 ranks for the program's mesh of 2, got 1; run oneflow-run --nproc 2, mpirun -n 2 oneflow-run, or simulate them with --simulate
// OTHER: oneflow-run: error: expected 2 ranks for the program's mesh of 2, got 3
// OTHER-NOT: error
// BOTH: oneflow-run: error: expected either --nproc or --simulate, got both
// MISSING: oneflow-run: error: missing input for x
// MISSING-NOT: error
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @f(
      %x: tensor<5x3xf32> {oneflow.name = "x", oneflow.nd_sbp = [#sbp.split<0>]},
      %w: tensor<3x3xf32> {oneflow.name = "w"}) -> (tensor<3xf32> {oneflow.name = "y"}) {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<5x3xf32>, tensor<3x3xf32>) -> tensor<5x3xf32>
    %1 = "oneflow.reduce_sum"(%0) {axis = array<i32: 0>, keepdims = false} : (tensor<5x3xf32>) -> tensor<3xf32>
    %2 = "oneflow.relu"(%1) : (tensor<3xf32>) -> tensor<3xf32>
    return %2 : tensor<3xf32>
  }
}
