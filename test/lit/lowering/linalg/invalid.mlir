// RUN: oneflow-opt %s --convert-oneflow-to-linalg --verify-diagnostics --split-input-file
// RUN: oneflow-opt %s --oneflow-split-for-threads --verify-diagnostics --split-input-file
// RUN: oneflow-opt %s --oneflow-form-kernels --verify-diagnostics --split-input-file

// The first lowering pass refuses invalid programs.

func.func @encoding(%x: tensor<8xf32>) -> tensor<8xf32, {a = 1}> {
  // expected-error @below {{tensor.empty: expected tensors without an encoding, got tensor<8xf32, {a = 1 : i64}>}}
  %0 = tensor.empty() : tensor<8xf32, {a = 1}>
  return %0 : tensor<8xf32, {a = 1}>
}

// -----

// expected-error @below {{func.func: expected tensors without an encoding, got tensor<8xf32, 1 : i64>}}
func.func @argument(%x: tensor<8xf32, 1>) -> tensor<8xf32> {
  %0 = tensor.empty() : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func private @callee(%x: tensor<?xui8>) -> tensor<?xui8>
func.func @value(%x: tensor<?xui8>) -> tensor<?xui8> {
  // expected-error @below {{func.constant: expected calls of functions by name, got one taken as a value}}
  %0 = func.constant @callee : (tensor<?xui8>) -> tensor<?xui8>
  %1 = call_indirect %0(%x) : (tensor<?xui8>) -> tensor<?xui8>
  return %1 : tensor<?xui8>
}

// -----

module {
  // expected-error @below {{expected functions in one module, got a module in it: lower each module alone}}
  module {
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
}

// -----

func.func @beyond_memory(%x: tensor<64x4611686018427387904xf32>) -> tensor<64x4611686018427387904xf32> {
  // expected-error@below {{tensor.empty: expected tensors of less than 2^59 elements, got tensor<64x4611686018427387904xf32>}}
  %0 = tensor.empty() : tensor<64x4611686018427387904xf32>
  return %0 : tensor<64x4611686018427387904xf32>
}
