// RUN: oneflow-opt %s --load-ops %S/Inputs/twice.py --oneflow-infer-types | FileCheck %s
// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.array([1, 2], np.float32))"
// RUN: oneflow-run %s --load-ops %S/Inputs/twice.py --input arg0=%t.npy | FileCheck %s --check-prefix=RESULT

// CHECK: "oneflow.user_twice"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
// RESULT: [2. 4.]
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.user_twice"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
