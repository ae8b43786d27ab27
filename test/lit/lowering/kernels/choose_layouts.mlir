// RUN: oneflow-opt %s --oneflow-prefer-channels-last | FileCheck %s --check-prefix=LAST
// RUN: oneflow-opt %s --oneflow-prefer-channels-last --oneflow-decompose --convert-oneflow-to-linalg | oneflow-opt --oneflow-choose-layouts=gpu=true | FileCheck %s
// RUN: oneflow-opt %s --oneflow-decompose --convert-oneflow-to-linalg | oneflow-opt --oneflow-choose-layouts | FileCheck %s --check-prefix=FIRST

// LAST-LABEL: func.func @main
// LAST-DAG: %[[X:.*]] = "oneflow.transpose"(%arg0) {perm = array<i32: 0, 2, 3, 1>}
// LAST-DAG: %[[W:.*]] = "oneflow.transpose"(%arg1) {perm = array<i32: 0, 2, 3, 1>}
// LAST: %[[Y:.*]] = "oneflow.conv2d"(%[[X]], %[[W]]) {{.*}}data_format = "channels_last"
// LAST: "oneflow.transpose"(%[[Y]]) {perm = array<i32: 0, 3, 1, 2>}

// Tensors between the convolutions are channels-last, so that nothing is transposed between the convolutions.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tensor<2x16x12x10xf32>
// CHECK-NOT: tensor<2x24x12x10xf32>
// CHECK: arith.mulf
// CHECK-NOT: tensor<2x16x12x10xf32>
// CHECK-NOT: tensor<2x24x12x10xf32>
// CHECK: outs(%{{.*}} : tensor<2x12x10x16xf32>)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.addf
// CHECK-NOT: tensor<2x16x12x10xf32>
// CHECK-NOT: tensor<2x24x12x10xf32>
// CHECK: return
func.func @main(%x: tensor<2x8x12x10xf32>, %w: tensor<16x8x1x1xf32>, %v: tensor<24x16x1x1xf32>, %b: tensor<1x16x1x1xf32>) -> tensor<2x24xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {filters = 16 : si32, padding_before = [0 : si32, 0 : si32], data_format = "channels_first", kernel_size = [1 : si32, 1 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32} : (tensor<2x8x12x10xf32>, tensor<16x8x1x1xf32>) -> tensor<2x16x12x10xf32>
  %1 = "oneflow.broadcast_add"(%0, %b) : (tensor<2x16x12x10xf32>, tensor<1x16x1x1xf32>) -> tensor<2x16x12x10xf32>
  %2 = "oneflow.conv2d"(%1, %v) {filters = 24 : si32, padding_before = [0 : si32, 0 : si32], data_format = "channels_first", kernel_size = [1 : si32, 1 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32} : (tensor<2x16x12x10xf32>, tensor<24x16x1x1xf32>) -> tensor<2x24x12x10xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = [2 : si32, 3 : si32], keepdims = false} : (tensor<2x24x12x10xf32>) -> tensor<2x24xf32>
  return %3 : tensor<2x24xf32>
}

// Padded images have the layout of the consumer.
// CHECK-LABEL: func.func @padded
// CHECK: tensor.insert_slice {{.*}}[0, 1, 1, 0] [2, 12, 10, 16] [1, 1, 1, 1] : tensor<2x12x10x16xf32> into tensor<2x14x12x16xf32>
// CHECK-NOT: tensor<2x16x14x12xf32>
// CHECK: return
// Images of 3 channels get 5 of zeros.
// LAST-LABEL: func.func @padded
// LAST: %[[T:.*]] = "oneflow.transpose"(%arg0)
// LAST: "oneflow.pad"(%[[T]]) {{.*}}padding_after = array<i64: 0, 0, 0, 5>
func.func @padded(%x: tensor<2x3x12x10xf32>, %w: tensor<16x3x1x1xf32>, %v: tensor<24x16x1x1xf32>) -> tensor<2x24xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {filters = 16 : si32, padding_before = [0 : si32, 0 : si32], data_format = "channels_first", kernel_size = [1 : si32, 1 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<2x3x12x10xf32>, tensor<16x3x1x1xf32>) -> tensor<2x16x12x10xf32>
  %1, %i = "oneflow.max_pool_2d"(%0) {padding = [1 : si32, 1 : si32], data_format = "channels_first", kernel_size = [3 : si32, 3 : si32], stride = [2 : si32, 2 : si32], dilation = [1 : si32, 1 : si32]} : (tensor<2x16x12x10xf32>) -> (tensor<2x16x6x5xf32>, tensor<2x16x6x5xi64>)
  %2 = "oneflow.conv2d"(%1, %v) {filters = 24 : si32, padding_before = [0 : si32, 0 : si32], data_format = "channels_first", kernel_size = [1 : si32, 1 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<2x16x6x5xf32>, tensor<24x16x1x1xf32>) -> tensor<2x24x6x5xf32>
  %3 = "oneflow.reduce_sum"(%2) {axis = [2 : si32, 3 : si32], keepdims = false} : (tensor<2x24x6x5xf32>) -> tensor<2x24xf32>
  return %3 : tensor<2x24xf32>
}

// On a CPU, convolutions with channels first have the other tensors in this layout too, whatever the program
// transposes in between; a batch of one is no obstacle.
// FIRST-LABEL: func.func @transposed
// FIRST: %[[Y:.*]] = linalg.generic {{.*}}ins(%arg0, %arg1 : {{.*}}) outs(%{{.*}} : tensor<1x16x12x10xf32>)
// FIRST: %[[Z:.*]] = linalg.generic {{.*}}ins(%[[Y]], %arg3 : {{.*}}) outs(%{{.*}} : tensor<1x16x12x10xf32>)
// FIRST: %[[U:.*]] = linalg.generic {{.*}}ins(%[[Z]], %arg2 : {{.*}}) outs(%{{.*}} : tensor<1x16x12x10xf32>)
// FIRST: %[[R:.*]] = linalg.generic {{.*}}ins(%[[U]], %[[Z]] : {{.*}}) outs(%{{.*}} : tensor<1x16x12x10xf32>)
// FIRST: return %[[R]]
func.func @transposed(%x: tensor<1x8x12x10xf32>, %w: tensor<16x8x1x1xf32>, %v: tensor<16x16x1x1xf32>, %b: tensor<1x1x1x16xf32>) -> tensor<1x16x12x10xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {filters = 16 : si32, padding_before = [0 : si32, 0 : si32], data_format = "channels_first", kernel_size = [1 : si32, 1 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<1x8x12x10xf32>, tensor<16x8x1x1xf32>) -> tensor<1x16x12x10xf32>
  %1 = "oneflow.transpose"(%0) {perm = [0 : si32, 2 : si32, 3 : si32, 1 : si32]} : (tensor<1x16x12x10xf32>) -> tensor<1x12x10x16xf32>
  %2 = "oneflow.broadcast_add"(%1, %b) : (tensor<1x12x10x16xf32>, tensor<1x1x1x16xf32>) -> tensor<1x12x10x16xf32>
  %3 = "oneflow.transpose"(%2) {perm = [0 : si32, 3 : si32, 1 : si32, 2 : si32]} : (tensor<1x12x10x16xf32>) -> tensor<1x16x12x10xf32>
  %4 = "oneflow.conv2d"(%3, %v) {filters = 16 : si32, padding_before = [0 : si32, 0 : si32], data_format = "channels_first", kernel_size = [1 : si32, 1 : si32], strides = [1 : si32, 1 : si32], dilation_rate = [1 : si32, 1 : si32], groups = 1 : si32, operandSegmentSizes = array<i32: 1, 1, 0, 0>} : (tensor<1x16x12x10xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x12x10xf32>
  %5 = "oneflow.transpose"(%4) {perm = [0 : si32, 2 : si32, 3 : si32, 1 : si32]} : (tensor<1x16x12x10xf32>) -> tensor<1x12x10x16xf32>
  %6 = "oneflow.add_n"(%5, %2) : (tensor<1x12x10x16xf32>, tensor<1x12x10x16xf32>) -> tensor<1x12x10x16xf32>
  %7 = "oneflow.transpose"(%6) {perm = [0 : si32, 3 : si32, 1 : si32, 2 : si32]} : (tensor<1x12x10x16xf32>) -> tensor<1x16x12x10xf32>
  return %7 : tensor<1x16x12x10xf32>
}
