// RUN: oneflow-opt %s --verify-diagnostics=only-expected -o /dev/null
// RUN: not oneflow-opt %s --verify-diagnostics=all 2>&1 | FileCheck %s

// CHECK: error: unexpected error: {{.*}}oneflow.rely
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "oneflow.rely"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error@+1 {{did you mean oneflow.tanh?}}
  %1 = "oneflow.tanhh"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
