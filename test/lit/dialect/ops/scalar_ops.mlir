// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s --check-prefix=LAW

// CHECK-LABEL: func.func @types
func.func @types(%x: tensor<2x?xf32>, %n: tensor<3xui8>, %s: tensor<1xf32>)
    -> (tensor<*xf32>, tensor<*xi1>, tensor<*xui8>, tensor<*xf32>) {
  // CHECK: "oneflow.scalar_pow"({{.*}}) {float_operand = 5.000000e-01 : f64, has_float_operand = true} : (tensor<2x?xf32>) -> tensor<2x?xf32>
  %0 = "oneflow.scalar_pow"(%x) {has_float_operand = true, float_operand = 0.5 : f64} : (tensor<2x?xf32>) -> tensor<*xf32>
  // CHECK: "oneflow.scalar_logical_less"({{.*}}) {has_int_operand = true, int_operand = 3 : i64} : (tensor<3xui8>) -> tensor<3xi1>
  %1 = "oneflow.scalar_logical_less"(%n) {has_int_operand = true, int_operand = 3 : i64} : (tensor<3xui8>) -> tensor<*xi1>
  // CHECK: "oneflow.scalar_bitwise_and"({{.*}}) {operand = 15 : i64} : (tensor<3xui8>) -> tensor<3xui8>
  %2 = "oneflow.scalar_bitwise_and"(%n) {operand = 15 : i64} : (tensor<3xui8>) -> tensor<*xui8>
  // CHECK: "oneflow.scalar_mul_by_tensor"({{.*}}) : (tensor<2x?xf32>, tensor<1xf32>) -> tensor<2x?xf32>
  %3 = "oneflow.scalar_mul_by_tensor"(%x, %s) : (tensor<2x?xf32>, tensor<1xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3 : tensor<*xf32>, tensor<*xi1>, tensor<*xui8>, tensor<*xf32>
}

// LAW-LABEL: func.func @neutral
// LAW-SAME: (%[[N:.*]]: tensor<3xi32>, %[[X:.*]]: tensor<3xf32>)
func.func @neutral(%n: tensor<3xi32>, %x: tensor<3xf32>) -> (tensor<3xi32>, tensor<3xf32>) {
  // LAW-NEXT: return %[[N]], %[[X]]
  %0 = "oneflow.scalar_add"(%n) {has_int_operand = true, int_operand = 0 : i64} : (tensor<3xi32>) -> tensor<3xi32>
  %1 = "oneflow.scalar_mul"(%x) {has_float_operand = true, float_operand = 1.0 : f64} : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "oneflow.scalar_div"(%1) {has_int_operand = true, int_operand = 1 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "oneflow.scalar_pow"(%2) {has_float_operand = true, float_operand = 1.0 : f64} : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %3 : tensor<3xi32>, tensor<3xf32>
}

// -0.0 + 0.0 is 0.0.

// LAW-LABEL: func.func @zero_is_not_neutral_for_floats
func.func @zero_is_not_neutral_for_floats(%x: tensor<3xf32>) -> tensor<3xf32> {
  // LAW: "oneflow.scalar_add"
  %0 = "oneflow.scalar_add"(%x) {has_float_operand = true, float_operand = 0.0 : f64} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @host_scalar_add_by_tensor(
// CHECK: "oneflow.host_scalar_add_by_tensor"({{.*}}) : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32>
func.func @host_scalar_add_by_tensor(%arg0: tensor<2x3xf32>, %arg1: tensor<1xf32>) -> tensor<*xf32> {
  %0 = "oneflow.host_scalar_add_by_tensor"(%arg0, %arg1) : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
