// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @max(
// CHECK: "oneflow.max_pool_2d"{{.*}} : (tensor<1x64x112x112xf32>) -> (tensor<1x64x56x56xf32>, tensor<1x64x56x56xi64>)
func.func @max(%x: tensor<1x64x112x112xf32>) -> tensor<*xf32> {
  %y, %indice = "oneflow.max_pool_2d"(%x) {
    ceil_mode = false, data_format = "channels_first", dilation = [1 : si32, 1 : si32],
    kernel_size = [3 : si32, 3 : si32], padding = [1 : si32, 1 : si32], return_indices = false,
    stride = [2 : si32, 2 : si32]
  } : (tensor<1x64x112x112xf32>) -> (tensor<*xf32>, tensor<*xsi64>)
  return %y : tensor<*xf32>
}

// The last window of `ceil_mode` has to begin inside: 5 elements in steps of 2 are 3 windows, 4 are 2.
// CHECK-LABEL: func.func @avg(
// CHECK: "oneflow.avg_pool_2d"{{.*}} : (tensor<?x3x5x4xf32>) -> tensor<?x3x3x2xf32>
func.func @avg(%x: tensor<?x3x5x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.avg_pool_2d"(%x) {
    ceil_mode = true, data_format = "channels_first", kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]
  } : (tensor<?x3x5x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
