// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @tensor_to_tensor_buffer(
// CHECK: "oneflow.tensor_to_tensor_buffer"({{.*}}) {instance_dims = 2 : i32} : (tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
func.func @tensor_to_tensor_buffer(%arg0: tensor<3x2x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tensor_to_tensor_buffer"(%arg0) {instance_dims = 2 : i32} : (tensor<3x2x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tensor_buffer_to_tensor(
// CHECK: "oneflow.tensor_buffer_to_tensor"({{.*}}) {dtype = f32, instance_shape = array<i64: 2, 2>} : (tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
func.func @tensor_buffer_to_tensor(%arg0: tensor<3x2x2xf32>) -> tensor<*xf32> {
  %0 = "oneflow.tensor_buffer_to_tensor"(%arg0) {dtype = f32, instance_shape = array<i64: 2, 2>} : (tensor<3x2x2xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @gen_tensor_buffer(
// CHECK: "oneflow.gen_tensor_buffer"() {data_type = f32, shape = array<i64: 2, 1>, shape_list = [array<i64: 2>, array<i64: 2>], value_list = array<f32: 1.500000e+00, -2.000000e+00>} : () -> tensor<2x1x2xf32>
func.func @gen_tensor_buffer() -> tensor<*xf32> {
  %0 = "oneflow.gen_tensor_buffer"() {data_type = f32, shape = array<i64: 2, 1>, shape_list = [array<i64: 2>, array<i64: 2>], value_list = array<f32: 1.500000e+00, -2.000000e+00>} : () -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @tensor_buffer_to_list_of_tensors(
// CHECK: "oneflow.tensor_buffer_to_list_of_tensors"({{.*}}) {out_dtype = f32, out_shape = array<i64: 2>} : (tensor<3x2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
func.func @tensor_buffer_to_list_of_tensors(%arg0: tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.tensor_buffer_to_list_of_tensors"(%arg0) {out_dtype = f32, out_shape = array<i64: 2>} : (tensor<3x2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %0#1, %0#2 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @tensor_buffer_to_list_of_tensors_v2(
// CHECK: "oneflow.tensor_buffer_to_list_of_tensors_v2"({{.*}}) {out_dtypes = [i32, i32], out_shapes = [array<i64: 3>, array<i64: 1, 3>]} : (tensor<2x3xi32>) -> (tensor<*xi32>, tensor<*xi32>)
func.func @tensor_buffer_to_list_of_tensors_v2(%arg0: tensor<2x3xi32>) -> (tensor<3xi32>, tensor<1x3xi32>) {
  %0:2 = "oneflow.tensor_buffer_to_list_of_tensors_v2"(%arg0) {out_dtypes = [i32, i32], out_shapes = [array<i64: 3>, array<i64: 1, 3>]} : (tensor<2x3xi32>) -> (tensor<*xi32>, tensor<*xi32>)
  %cast = tensor.cast %0#0 : tensor<*xi32> to tensor<3xi32>
  %cast_0 = tensor.cast %0#1 : tensor<*xi32> to tensor<1x3xi32>
  return %cast, %cast_0 : tensor<3xi32>, tensor<1x3xi32>
}
