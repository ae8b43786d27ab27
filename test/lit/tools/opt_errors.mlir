// RUN: mkdir -p %t.d
// RUN: not oneflow-opt %t.missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not oneflow-opt %s --oneflow-infer-types --reproducer-dir=%t.d 2>&1 | FileCheck %s --check-prefix=FAIL
// RUN: not oneflow-opt %t.d/opt_errors.oneflow-infer-types.reproducer.mlir --pass-pipeline="builtin.module(oneflow-infer-types)" --reproducer-dir=%t.d 2>&1 | FileCheck %s --check-prefix=AGAIN

// MISSING: cannot read {{.*}}missing.mlir: No such file or directory

// FAIL: opt_errors.mlir:17:8: error: oneflow.tanh: expected result 0 of type tensor<2x3xf32>, got tensor<?xf32>
// FAIL-NEXT: %1 = "oneflow.tanh"
// FAIL-NEXT: ^
// FAIL: reproduce with: oneflow-opt {{.*}}opt_errors.oneflow-infer-types.reproducer.mlir --pass-pipeline='builtin.module(oneflow-infer-types)'

// AGAIN: error: oneflow.tanh: expected result 0
func.func @f(%x: tensor<2x3xf32>) -> tensor<?xf32> {

  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.tanh"(%0) : (tensor<*xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
