// RUN: oneflow-opt %s --oneflow-emit-kernels --verify-diagnostics --split-input-file

func.func @operators(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected kernels, views and sizes in the entry, got oneflow.relu: run convert-oneflow-to-linalg and oneflow-form-kernels first}}
  %0 = "oneflow.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @linalg(%x: tensor<4xf32>, %v: f32) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  // expected-error @below {{got linalg.fill: run convert-oneflow-to-linalg and oneflow-form-kernels first}}
  %1 = linalg.fill ins(%v : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
