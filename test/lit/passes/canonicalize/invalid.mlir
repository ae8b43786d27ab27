// RUN: not oneflow-opt %s --oneflow-canonicalize="laws=compose-transpose" --reproducer-dir=%t 2>&1 | FileCheck %s
// CHECK: error: oneflow-canonicalize: unknown law compose-transpose; did you mean compose-transposes?
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
