// RUN: oneflow-opt %s --load-ops %S/Inputs/kernels.py --stage linalg | FileCheck %s
// RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.array([[1, 2], [5, 0], [-3, -1]], np.float32))"
// RUN: oneflow-run %s --load-ops %S/Inputs/kernels.py --input arg0=%t.npy | FileCheck %s --check-prefix=RESULT

// CHECK: call @oneflow_user_kernel_0
// CHECK: call @oneflow_user_kernel_1
// CHECK: func.func private @oneflow_user_kernel_0(tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK-SAME: attributes = {limit = 3.000000e+00 : f32}, location = "{{.*}}load_kernels.mlir:11:8", operator = "oneflow.lit_cap"
// RESULT: [2. 3. 0.]
func.func @f(%x: tensor<3x2xf32>) -> tensor<3xf32> {
  %0 = "oneflow.lit_cap"(%x) {limit = 3.0 : f32} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = "oneflow.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "oneflow.lit_row_max"(%1) : (tensor<3x2xf32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
