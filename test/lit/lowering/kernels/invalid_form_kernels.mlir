// RUN: oneflow-opt %s --oneflow-form-kernels --verify-diagnostics --split-input-file

// expected-error @below {{expected ranked tensors as arguments, got tensor<*xf32>}}
func.func @unranked(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// -----

// expected-error @below {{expected ranked tensors as arguments, got i1}}
func.func @number(%c: i1, %x: tensor<f16>) -> tensor<f16> {
  return %x : tensor<f16>
}

// -----

func.func @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{cannot inline @again: it calls itself, by again -> again}}
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @between(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{cannot inline @between: it calls itself, by between -> between}}
  %1 = call @between(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
