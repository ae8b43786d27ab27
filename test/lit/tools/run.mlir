// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.array([[-1, 2, -3], [4, -5, 6]], np.float32))"
// RUN: oneflow-run %s --entry-point f --input x=%t.npy | FileCheck %s
// RUN: oneflow-run %s --autotune --input x=%t.npy --print-ir-after=oneflow | FileCheck %s --check-prefixes=TUNED,CHECK
// RUN: not oneflow-run %s 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: oneflow-run %s --input x=%t.npy --print-ir-after=linalg --time=1 2>&1 | FileCheck %s --check-prefix=STAGE

// TUNED: module attributes {oneflow.autotune = "true"}
// CHECK: y: float32[2, 3]
// CHECK-NEXT: {{\[}}[0. 2. 0.]
// CHECK-NEXT: [4. 0. 6.]]
// MISSING: oneflow-run: error: missing input for x: tensor<2x3xf32>; give it with --input NAME=FILE
// STAGE-DAG: IR at stage linalg
// STAGE-DAG: (median of 1)
func.func @f(%x: tensor<2x3xf32> {oneflow.name = "x"}) -> (tensor<2x3xf32> {oneflow.name = "y"}) {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
