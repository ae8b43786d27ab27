// RUN: oneflow-opt %s --split-input-file --verify-diagnostics

func.func @axis(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{expected axis in [-2, 2), got 2}}
  %0 = "oneflow.reduce_sum"(%x) {axis = [2]} : (tensor<2x3xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @empty(%x: tensor<2x0xf32>) {
  // expected-error @+1 {{expected at least one element along axes [1], got tensor<2x0xf32>}}
  %0 = "oneflow.reduce_max"(%x) {axis = [1]} : (tensor<2x0xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @contracted(%a: tensor<3x4xf32>, %b: tensor<5x6xf32>) {
  // expected-error @+1 {{expected the contracted dimension of b to be 4, got 5}}
  %0 = "oneflow.matmul"(%a, %b) : (tensor<3x4xf32>, tensor<5x6xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @training(%x: tensor<2x3xf32>, %p: tensor<3xf32>) {
  // expected-error @+1 {{expected moving_mean without training, got none}}
  %0 = "oneflow.normalization"(%x, %p, %p) {axis = 1 : i32, training = false,
    operand_segment_sizes = array<i32: 1, 0, 0, 1, 1, 0>, result_segment_sizes = array<i32: 1, 0, 0>}
    : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @window(%x: tensor<1x2x4x4xf32>) {
  // expected-error @+1 {{expected spatial sizes of at least 5, got 4}}
  %0, %1 = "oneflow.max_pool_2d"(%x) {data_format = "channels_first", dilation = [1, 1], kernel_size = [5, 2],
    padding = [0, 0], stride = [1, 1]} : (tensor<1x2x4x4xf32>) -> (tensor<*xf32>, tensor<*xi64>)
  return
}

// -----

func.func @widened(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{tensor<2x4xf32>}}
  %0 = "oneflow.softmax"(%x) : (tensor<2x3xf32>) -> tensor<2x4xf32>
  return
}
