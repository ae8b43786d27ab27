// RUN: oneflow-opt %s --oneflow-to-triton | FileCheck %s --check-prefix=IEEE
// RUN: oneflow-opt %s --oneflow-decompose --convert-oneflow-to-linalg --canonicalize --cse --oneflow-form-kernels --oneflow-emit-triton=precision=tf32 | FileCheck %s --check-prefix=TF32
// RUN: not oneflow-opt %s --oneflow-decompose --convert-oneflow-to-linalg --canonicalize --cse --oneflow-form-kernels --oneflow-emit-triton=precision=half 2>&1 | FileCheck %s --check-prefix=WRONG

// Products of f32 are exact unless something else is asked for.
// IEEE: input_precision=\22ieee\22
// TF32: input_precision=\22tf32\22
// WRONG: expected precision to be one of ieee, tf32, tf32x3, got half
func.func @main(%a: tensor<64x48xf32>, %b: tensor<48x96xf32>) -> tensor<64x96xf32> {
  %0 = "oneflow.matmul"(%a, %b) : (tensor<64x48xf32>, tensor<48x96xf32>) -> tensor<64x96xf32>
  return %0 : tensor<64x96xf32>
}
