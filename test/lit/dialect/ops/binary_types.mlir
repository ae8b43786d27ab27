// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @atan2(
// CHECK: "oneflow.atan2"({{.*}}) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func @atan2(%arg0: tensor<64xf32>, %arg1: tensor<64xf32>) -> tensor<*xf32> {
  %0 = "oneflow.atan2"(%arg0, %arg1) : (tensor<64xf32>, tensor<64xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @broadcast_bitwise_and(
// CHECK: "oneflow.broadcast_bitwise_and"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_bitwise_and(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_bitwise_and"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_bitwise_or(
// CHECK: "oneflow.broadcast_bitwise_or"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_bitwise_or(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_bitwise_or"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_equal(
// CHECK: "oneflow.broadcast_equal"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_equal(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_equal"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_floor_mod(
// CHECK: "oneflow.broadcast_floor_mod"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @broadcast_floor_mod(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_floor_mod"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @broadcast_fmod(
// CHECK: "oneflow.broadcast_fmod"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @broadcast_fmod(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_fmod"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @broadcast_greater_equal(
// CHECK: "oneflow.broadcast_greater_equal"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_greater_equal(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_greater_equal"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_less_equal(
// CHECK: "oneflow.broadcast_less_equal"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_less_equal(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_less_equal"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_logical_or(
// CHECK: "oneflow.broadcast_logical_or"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_logical_or(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_logical_or"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_logical_xor(
// CHECK: "oneflow.broadcast_logical_xor"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_logical_xor(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_logical_xor"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_minimum(
// CHECK: "oneflow.broadcast_minimum"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @broadcast_minimum(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_minimum"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @broadcast_not_equal(
// CHECK: "oneflow.broadcast_not_equal"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_not_equal(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_not_equal"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @floordiv(
// CHECK: "oneflow.floordiv"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @floordiv(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.floordiv"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @pow(
// CHECK: "oneflow.pow"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @pow(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.pow"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @truncdiv(
// CHECK: "oneflow.truncdiv"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @truncdiv(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.truncdiv"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @xdivy(
// CHECK: "oneflow.xdivy"({{.*}}) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func @xdivy(%arg0: tensor<64xf32>, %arg1: tensor<64xf32>) -> tensor<*xf32> {
  %0 = "oneflow.xdivy"(%arg0, %arg1) : (tensor<64xf32>, tensor<64xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @xlogy(
// CHECK: "oneflow.xlogy"({{.*}}) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
func.func @xlogy(%arg0: tensor<64xf32>, %arg1: tensor<64xf32>) -> tensor<*xf32> {
  %0 = "oneflow.xlogy"(%arg0, %arg1) : (tensor<64xf32>, tensor<64xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @broadcast_mul_no_nan(
// CHECK: "oneflow.broadcast_mul_no_nan"({{.*}}) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @broadcast_mul_no_nan(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.broadcast_mul_no_nan"(%arg0, %arg1) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @near(
// CHECK-NEXT: "oneflow.broadcast_isclose_eq_nan"(%{{.*}}, %{{.*}}) {atol = 5.000000e-01 : f32} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xi1>
// CHECK-NEXT: "oneflow.broadcast_isclose_neq_nan"(%{{.*}}, %{{.*}}) : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xi1>
func.func @near(%x: tensor<?x2xf32>, %y: tensor<2xf32>) -> (tensor<*xi1>, tensor<*xi1>) {
  %0 = "oneflow.broadcast_isclose_eq_nan"(%x, %y) {atol = 0.5 : f32} : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<*xi1>
  %1 = "oneflow.broadcast_isclose_neq_nan"(%x, %y) : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<*xi1>
  return %0, %1 : tensor<*xi1>, tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_div(
// CHECK: "oneflow.broadcast_div"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @broadcast_div(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_div"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @broadcast_greater(
// CHECK: "oneflow.broadcast_greater"({{.*}}) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
func.func @broadcast_greater(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xi1>) -> tensor<*xi1> {
  %0 = "oneflow.broadcast_greater"(%arg0, %arg1) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @broadcast_mul(
// CHECK: "oneflow.broadcast_mul"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @broadcast_mul(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_mul"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @broadcast_sub(
// CHECK: "oneflow.broadcast_sub"({{.*}}) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8>
func.func @broadcast_sub(%arg0: tensor<2x3xui8>, %arg1: tensor<2x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.broadcast_sub"(%arg0, %arg1) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}
