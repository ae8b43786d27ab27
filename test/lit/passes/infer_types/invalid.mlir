// RUN: oneflow-opt %s --oneflow-infer-types --split-input-file --verify-diagnostics

func.func @contradiction(%x: tensor<2x3xf32>) -> tensor<?xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  // expected-error@below {{oneflow.tanh: expected result 0 of type tensor<2x3xf32>, got tensor<?xf32>}}
  %1 = "oneflow.tanh"(%0) : (tensor<*xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// -----

func.func @operands(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %1 = "oneflow.relu"(%y) : (tensor<4x5xf32>) -> tensor<*xf32>
  // expected-error@+1 {{oneflow.matmul: expected the contracted dimension of b to be 3, got 4}}
  %2 = "oneflow.matmul"(%0, %1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}

// -----

func.func @cast(%x: tensor<2x3xf32>) -> tensor<5x?xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  // expected-error@below {{tensor.cast: expected a tensor that can be tensor<5x?xf32>, got tensor<2x3xf32>}}
  %1 = tensor.cast %0 : tensor<*xf32> to tensor<5x?xf32>
  return %1 : tensor<5x?xf32>
}

// -----

func.func @encoding(%x: tensor<2x3xf32>) -> tensor<2x3xf32, "x"> {
  %0 = "oneflow.relu"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  // expected-error@below {{tensor.cast: expected a tensor without an encoding, got tensor<2x3xf32, "x">}}
  %1 = tensor.cast %0 : tensor<*xf32> to tensor<2x3xf32, "x">
  return %1 : tensor<2x3xf32, "x">
}

// -----

func.func @through_call(%x: tensor<2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<2xf32>) -> tensor<*xf32>
  %1 = call @callee(%0) : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
func.func private @callee(%x: tensor<*xf32>) -> tensor<*xf32> {
  // expected-error@below {{oneflow.transpose: expected perm in [-1, 1), got 1}}
  %0 = "oneflow.transpose"(%x) {perm = array<i32: 1, 0>} : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

func.func @more_elements_than_a_dimension_can_have(%x: tensor<4611686018427387904x4xf32>) -> tensor<*xf32> {
  // expected-error@below {{oneflow.reshape: result 0 has more than 2^63 - 1 bytes: tensor<18446744073709551616xf32>}}
  %0 = "oneflow.reshape"(%x) {shape = [-1]} : (tensor<4611686018427387904x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

// Also where a size is unknown: such a program would run only where the size is 0.
func.func @more_elements_with_an_unknown_size(%x: tensor<1x1x?xf32>) -> tensor<*xf32> {
  // expected-error@below {{oneflow.expand: result 0 has more than 2^63 - 1 bytes: tensor<1099511627776x1099511627776x?xf32>}}
  %0 = "oneflow.expand"(%x) {expand_shape = [1099511627776, 1099511627776, -1]} : (tensor<1x1x?xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
