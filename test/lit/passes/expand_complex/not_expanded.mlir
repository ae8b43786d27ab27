// RUN: oneflow-opt %s --convert-oneflow-to-linalg --verify-diagnostics

func.func @complex(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  // expected-error@below {{oneflow.negative: expected operators on reals; run oneflow-expand-complex first}}
  %0 = "oneflow.negative"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
