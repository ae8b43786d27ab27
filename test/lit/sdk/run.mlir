// RUN: %python %S/Inputs/build.py %S/Inputs/halve.cpp %t.so
// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.array([-1, 2], np.float32))"
// RUN: oneflow-run %s --load-ops=%t.so --entry-point f --input arg0=%t.npy | FileCheck %s
// RUN: not oneflow-run %s --load-ops=%t.so --entry-point g --input arg0=%t.npy 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: [0. 4.]
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.lit_twice"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "oneflow.relu"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// NONE: oneflow-run: error: oneflow.lit_halve: no kernel matches on cpu for x[0]: float32(2) y[0]: float32(1)
// NONE: REGISTER_USER_KERNEL("lit_halve"){{.*}}run.mlir:16:{{[0-9]+}})
func.func @g(%x: tensor<2xf32>) -> tensor<1xf32> {
  %0 = "oneflow.lit_halve"(%x) : (tensor<2xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
