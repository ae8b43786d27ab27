// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @regions(
// CHECK-NEXT: "oneflow.roi_align"(%{{.*}}, %{{.*}}) {pooled_h = 2 : i32, pooled_w = 2 : i32, sampling_ratio = 2 : i32, spatial_scale = 5.000000e-01 : f32} : (tensor<2x3x8x8xf32>, tensor<4x5xf32>) -> tensor<4x3x2x2xf32>
// CHECK-NEXT: "oneflow.roi_align_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {pooled_h = 2 : i32, pooled_w = 2 : i32, sampling_ratio = 2 : i32, spatial_scale = 5.000000e-01 : f32} : (tensor<4x3x2x2xf32>, tensor<2x3x8x8xf32>, tensor<4x5xf32>) -> tensor<2x3x8x8xf32>
func.func @regions(%x: tensor<2x3x8x8xf32>, %r: tensor<4x5xf32>, %d: tensor<4x3x2x2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.roi_align"(%x, %r) {pooled_h = 2 : si32, pooled_w = 2 : si32, spatial_scale = 0.5 : f32, sampling_ratio = 2 : si32} : (tensor<2x3x8x8xf32>, tensor<4x5xf32>) -> tensor<*xf32>
  %1 = "oneflow.roi_align_grad"(%d, %x, %r) {pooled_h = 2 : si32, pooled_w = 2 : si32, spatial_scale = 0.5 : f32, sampling_ratio = 2 : si32} : (tensor<4x3x2x2xf32>, tensor<2x3x8x8xf32>, tensor<4x5xf32>) -> tensor<*xf32>
  return %0, %1 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @moved(
// CHECK-NEXT: "oneflow.deform_conv2d"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dilation_h = 1 : i32, dilation_w = 1 : i32, groups = 1 : i32, offset_groups = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, stride_h = 1 : i32, stride_w = 1 : i32} : (tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<4x3x3x3xf32>, tensor<2x9x6x6xf32>) -> tensor<2x4x6x6xf32>
// CHECK-NEXT: "oneflow.deform_conv2d_input_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dilation_h = 1 : i32, dilation_w = 1 : i32, groups = 1 : i32, offset_groups = 1 : i32, stride_h = 1 : i32, stride_w = 1 : i32, use_mask = true} : (tensor<2x4x6x6xf32>, tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<4x3x3x3xf32>, tensor<2x9x6x6xf32>) -> (tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<2x9x6x6xf32>)
// CHECK-NEXT: "oneflow.deform_conv2d_param_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {dilation_h = 1 : i32, dilation_w = 1 : i32, groups = 1 : i32, offset_groups = 1 : i32, stride_h = 1 : i32, stride_w = 1 : i32, use_mask = true} : (tensor<2x4x6x6xf32>, tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<4x3x3x3xf32>, tensor<2x9x6x6xf32>) -> tensor<4x3x3x3xf32>
func.func @moved(%x: tensor<2x3x8x8xf32>, %o: tensor<2x18x6x6xf32>, %w: tensor<4x3x3x3xf32>, %m: tensor<2x9x6x6xf32>, %d: tensor<2x4x6x6xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.deform_conv2d"(%x, %o, %w, %m) {stride_h = 1 : si32, stride_w = 1 : si32, dilation_h = 1 : si32, dilation_w = 1 : si32, groups = 1 : si32, offset_groups = 1 : si32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>} : (tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<4x3x3x3xf32>, tensor<2x9x6x6xf32>) -> tensor<*xf32>
  %1:3 = "oneflow.deform_conv2d_input_grad"(%d, %x, %o, %w, %m) {stride_h = 1 : si32, stride_w = 1 : si32, dilation_h = 1 : si32, dilation_w = 1 : si32, groups = 1 : si32, offset_groups = 1 : si32, use_mask = true} : (tensor<2x4x6x6xf32>, tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<4x3x3x3xf32>, tensor<2x9x6x6xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %2 = "oneflow.deform_conv2d_param_grad"(%d, %x, %o, %w, %m) {stride_h = 1 : si32, stride_w = 1 : si32, dilation_h = 1 : si32, dilation_w = 1 : si32, groups = 1 : si32, offset_groups = 1 : si32, use_mask = true} : (tensor<2x4x6x6xf32>, tensor<2x3x8x8xf32>, tensor<2x18x6x6xf32>, tensor<4x3x3x3xf32>, tensor<2x9x6x6xf32>) -> tensor<*xf32>
  return %0, %1#0, %2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @boxes(
// CHECK-NEXT: "oneflow.nms"(%{{.*}}) {iou_threshold = 5.000000e-01 : f32} : (tensor<?x4xf32>) -> tensor<?xi8>
func.func @boxes(%x: tensor<?x4xf32>) -> tensor<*xi8> {
  %0 = "oneflow.nms"(%x) {iou_threshold = 0.5 : f32} : (tensor<?x4xf32>) -> tensor<*xi8>
  return %0 : tensor<*xi8>
}
