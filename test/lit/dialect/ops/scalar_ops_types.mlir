// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @scalar_add_by_tensor(
// CHECK: "oneflow.scalar_add_by_tensor"({{.*}}) : (tensor<2x3xui8>, tensor<ui8>) -> tensor<2x3xui8>
func.func @scalar_add_by_tensor(%arg0: tensor<2x3xui8>, %arg1: tensor<ui8>) -> tensor<*xui8> {
  %0 = "oneflow.scalar_add_by_tensor"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<ui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @scalar_bitwise_or(
// CHECK: "oneflow.scalar_bitwise_or"({{.*}}) : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_bitwise_or(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_bitwise_or"(%arg0) : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_bitwise_xor(
// CHECK: "oneflow.scalar_bitwise_xor"({{.*}}) : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_bitwise_xor(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_bitwise_xor"(%arg0) : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_div_by_tensor(
// CHECK: "oneflow.scalar_div_by_tensor"({{.*}}) : (tensor<2x3xui8>, tensor<ui8>) -> tensor<2x3xui8>
func.func @scalar_div_by_tensor(%arg0: tensor<2x3xui8>, %arg1: tensor<ui8>) -> tensor<*xui8> {
  %0 = "oneflow.scalar_div_by_tensor"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<ui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @scalar_floordiv(
// CHECK: "oneflow.scalar_floordiv"({{.*}}) {float_operand = 7.500000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @scalar_floordiv(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.scalar_floordiv"(%arg0) {float_operand = 7.500000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @scalar_fmod(
// CHECK: "oneflow.scalar_fmod"({{.*}}) {float_operand = 7.500000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @scalar_fmod(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.scalar_fmod"(%arg0) {float_operand = 7.500000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @scalar_logical_and(
// CHECK: "oneflow.scalar_logical_and"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_and(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_and"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_logical_equal(
// CHECK: "oneflow.scalar_logical_equal"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_equal(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_equal"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_logical_greater_equal(
// CHECK: "oneflow.scalar_logical_greater_equal"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_greater_equal(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_greater_equal"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_logical_less_equal(
// CHECK: "oneflow.scalar_logical_less_equal"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_less_equal(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_less_equal"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_logical_not_equal(
// CHECK: "oneflow.scalar_logical_not_equal"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_not_equal(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_not_equal"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_logical_or(
// CHECK: "oneflow.scalar_logical_or"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_or(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_or"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_logical_xor(
// CHECK: "oneflow.scalar_logical_xor"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_xor(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_xor"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @scalar_reverse_pow(
// CHECK: "oneflow.scalar_reverse_pow"({{.*}}) {float_operand = 5.000000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @scalar_reverse_pow(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.scalar_reverse_pow"(%arg0) {float_operand = 5.000000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @scalar_sub_by_tensor(
// CHECK: "oneflow.scalar_sub_by_tensor"({{.*}}) : (tensor<2x3xui8>, tensor<ui8>) -> tensor<2x3xui8>
func.func @scalar_sub_by_tensor(%arg0: tensor<2x3xui8>, %arg1: tensor<ui8>) -> tensor<*xui8> {
  %0 = "oneflow.scalar_sub_by_tensor"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<ui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @scalar_truncdiv(
// CHECK: "oneflow.scalar_truncdiv"({{.*}}) {float_operand = 7.500000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @scalar_truncdiv(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.scalar_truncdiv"(%arg0) {float_operand = 7.500000e-01 : f64, has_float_operand = true} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @scalar_logical_greater(
// CHECK: "oneflow.scalar_logical_greater"({{.*}}) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @scalar_logical_greater(%arg0: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.scalar_logical_greater"(%arg0) {has_int_operand = true, int_operand = 1 : i64} : (tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}
