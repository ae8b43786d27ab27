// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-canonicalize | FileCheck %s
// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.array([1, 2], np.float32))"
// RUN: oneflow-run %s --input x=%t.npy | FileCheck %s --check-prefix=RESULT
// RUN: not oneflow-opt %s --oneflow-infertypes 2>&1 | FileCheck %s --check-prefix=WRONG

// CHECK: func.func @double(%{{.*}}) -> tensor<2xf32>
// CHECK: "oneflow.broadcast_add"
// RESULT: [2. 4.]
// WRONG: did you mean --oneflow-infer-types?
func.func @double(%x: tensor<2xf32> {oneflow.name = "x"}) -> tensor<*xf32> {
  %0 = "oneflow.broadcast_add"(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
