// RUN: oneflow-opt %s --oneflow-expand-complex --split-input-file --verify-diagnostics

func.func @of_another_dialect() -> tensor<2xcomplex<f32>> {
  // expected-error@below {{tensor.empty: expected operators of OneFlow on complex numbers}}
  %0 = tensor.empty() : tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}

// -----

func.func @no_rank(%x: tensor<*xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  // expected-error@below {{oneflow.negative: tensor of unknown rank; run oneflow-infer-types first}}
  %0 = "oneflow.negative"(%x) : (tensor<*xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// -----

// expected-error@below {{func.func: expected tensors of complex numbers, got complex<f32>}}
func.func @no_tensor(%x: complex<f32>) {
  return
}
