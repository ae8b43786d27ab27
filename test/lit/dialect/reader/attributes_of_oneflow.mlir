// Attributes that only OneFlow needs are kept, or checked if the attributes repeat the statement of other
// attributes.
// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @pad
// CHECK: "oneflow.pad"(%arg0) {{.*}}padding = array<i64: 1, 1, 2, 0>, padding_after = array<i64: 0, 0, 0, 1>, padding_before = array<i64: 0, 0, 2, 1>} : (tensor<1x2x3x4xf32>) -> tensor<1x2x5x6xf32>
func.func @pad(%x: tensor<1x2x3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.pad"(%x) {
    device_name = ["@0:0"], device_tag = "cpu", op_name = "pad-0", floating_constant_value = 0.0 : f64,
    integral_constant_value = 0 : si64, padding = [1 : si64, 1 : si64, 2 : si64, 0 : si64],
    padding_before = [0 : si64, 0 : si64, 2 : si64, 1 : si64], padding_after = [0 : si64, 0 : si64, 0 : si64, 1 : si64]
  } : (tensor<1x2x3x4xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @conv2d
// CHECK: "oneflow.conv2d"{{.*}}tuning_cache = ""{{.*}} -> tensor<1x5x3x3xf32>
func.func @conv2d(%x: tensor<1x2x4x4xf32>, %w: tensor<5x2x2x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.conv2d"(%x, %w) {
    data_format = "channels_first", dilation_rate = [1 : si32, 1 : si32], filters = 5 : si32, groups = 1 : si32,
    kernel_size = [2 : si32, 2 : si32], operand_segment_sizes = array<i32: 1, 1, 0, 0>,
    padding_before = [0 : si32, 0 : si32], strides = [1 : si32, 1 : si32], tuning_cache = ""
  } : (tensor<1x2x4x4xf32>, tensor<5x2x2x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @constant
// CHECK: "oneflow.constant"() {{.*}}complex_value{{.*}} : () -> tensor<2xf32>
func.func @constant() -> tensor<*xf32> {
  %0 = "oneflow.constant"() {
    complex_value = [0.0, 0.0], is_complex_value = false, dtype = 2 : i32, floating_value = 1.5 : f64,
    integer_value = 0 : si64, is_floating_value = true, nd_sbp = ["B"], shape = [2 : si64]
  } : () -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @empty
// CHECK: "oneflow.empty"() {{.*}}device_id{{.*}} : () -> tensor<2xf32>
func.func @empty() -> tensor<*xf32> {
  %0 = "oneflow.empty"() {
    device_id = 0 : si64, device_type = "cpu", dtype = 2 : i32, nd_sbp = ["B"], pin_memory = false, shape = [2 : si64]
  } : () -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @group_norm
// CHECK: "oneflow.group_norm"{{.*}} -> (tensor<2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
func.func @group_norm(%x: tensor<2x4xf32>) -> tensor<*xf32> {
  %y, %mean, %inv = "oneflow.group_norm"(%x) {
    activation = "none", affine = false, data_format = "channels_first", epsilon = 1.0e-5 : f64, num_groups = 2 : si32,
    operand_segment_sizes = array<i32: 1, 0, 0>
  } : (tensor<2x4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %y : tensor<*xf32>
}
