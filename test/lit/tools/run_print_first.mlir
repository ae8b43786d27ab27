// The lowered program is printed before the command requires inputs.
// RUN: not oneflow-run %s --print-ir-after linalg 2>&1 | FileCheck %s
// RUN: not oneflow-run %s --print-ir-after linalgg 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not oneflow-run %s --mesh 1 --print-ir-after linalgg 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not oneflow-run %s --mesh 1 --print-ir-after linalg 2>&1 | FileCheck %s

// CHECK: IR at stage linalg
// CHECK: linalg.generic
// CHECK: oneflow-run: error: missing input for x
// NEAR: oneflow-run: error: --print-ir-after: expected a stage{{.*}}, got 'linalgg'; did you mean linalg?
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
