// RUN: oneflow-run %s --target native | FileCheck %s
// RUN: not oneflow-run %s --target x86-64-v9 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not env ONEFLOW_TARGET=avx2 %python -m oneflow.tools.oneflow_run %s 2>&1 | FileCheck %s --check-prefix=VARIABLE

// CHECK: out0: float32[2]
// CHECK-NEXT: [1. 2.]
// UNKNOWN: oneflow-run: error: --target: expected a target out of native, {{.*}}, got 'x86-64-v9'; did you mean x86-64-v
// VARIABLE: oneflow-run: error: ONEFLOW_TARGET: expected a target out of native, {{.*}}, got 'avx2'
func.func @main() -> tensor<2xf32> {
  %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
