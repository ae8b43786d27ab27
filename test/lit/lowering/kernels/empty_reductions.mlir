// RUN: oneflow-opt %s --stage kernels | FileCheck %s
// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.zeros(0, 'f'))"
// RUN: oneflow-run %s --input x=%t.npy | FileCheck %s --check-prefix=RESULT

// A reduction of a constant that may have no elements keeps its initial value, and its body reads the value before.
// CHECK-LABEL: func.func private @f_kernel_0
// CHECK: %[[INIT:.*]] = linalg.fill ins(%true : i1)
// CHECK: linalg.generic {{.*}} outs(%[[INIT]] : tensor<i1>)
// CHECK: arith.andi %out
// RESULT: out0: bool[]
// RESULT-NEXT: True
func.func @f(%x: tensor<?xf32>) -> tensor<i1> {
  %0 = "oneflow.zero_like"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = "oneflow.reduce_all"(%0) {axis = []} : (tensor<?xf32>) -> tensor<i1>
  return %1 : tensor<i1>
}
