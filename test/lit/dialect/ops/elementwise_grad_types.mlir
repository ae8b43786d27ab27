// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @abs_grad(
// CHECK: "oneflow.abs_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @abs_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.abs_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @acos_grad(
// CHECK: "oneflow.acos_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @acos_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.acos_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @acosh_grad(
// CHECK: "oneflow.acosh_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @acosh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.acosh_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @asin_grad(
// CHECK: "oneflow.asin_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @asin_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.asin_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @asinh_grad(
// CHECK: "oneflow.asinh_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @asinh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.asinh_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @atan2_x_grad(
// CHECK: "oneflow.atan2_x_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @atan2_x_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.atan2_x_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @atan2_y_grad(
// CHECK: "oneflow.atan2_y_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @atan2_y_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.atan2_y_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @atan_grad(
// CHECK: "oneflow.atan_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @atan_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.atan_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @atanh_grad(
// CHECK: "oneflow.atanh_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @atanh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.atanh_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @celu_grad(
// CHECK: "oneflow.celu_grad"({{.*}}) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @celu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.celu_grad"(%arg0, %arg1) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @clip_by_scalar_grad(
// CHECK: "oneflow.clip_by_scalar_grad"({{.*}}) {floating_max = 9.000000e-01 : f64, floating_min = -0.69999999999999996 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @clip_by_scalar_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.clip_by_scalar_grad"(%arg0, %arg1) {floating_max = 9.000000e-01 : f64, floating_min = -0.69999999999999996 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @clip_by_scalar_max_grad(
// CHECK: "oneflow.clip_by_scalar_max_grad"({{.*}}) {floating_max = 9.000000e-01 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @clip_by_scalar_max_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.clip_by_scalar_max_grad"(%arg0, %arg1) {floating_max = 9.000000e-01 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @clip_by_scalar_min_grad(
// CHECK: "oneflow.clip_by_scalar_min_grad"({{.*}}) {floating_min = -0.69999999999999996 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @clip_by_scalar_min_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.clip_by_scalar_min_grad"(%arg0, %arg1) {floating_min = -0.69999999999999996 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @cos_grad(
// CHECK: "oneflow.cos_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @cos_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.cos_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @cosh_grad(
// CHECK: "oneflow.cosh_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @cosh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.cosh_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @elementwise_maximum_backward(
// CHECK: "oneflow.elementwise_maximum_backward"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> (tensor<2x3xf16>, tensor<2x3xf16>)
func.func @elementwise_maximum_backward(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:2 = "oneflow.elementwise_maximum_backward"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#0, %0#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @elementwise_minimum(
// CHECK: "oneflow.elementwise_minimum"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @elementwise_minimum(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.elementwise_minimum"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @elu_grad(
// CHECK: "oneflow.elu_grad"({{.*}}) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @elu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.elu_grad"(%arg0, %arg1) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @erf_grad(
// CHECK: "oneflow.erf_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @erf_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.erf_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @erfc_grad(
// CHECK: "oneflow.erfc_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @erfc_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.erfc_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @exp2_grad(
// CHECK: "oneflow.exp2_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @exp2_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.exp2_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @exp_grad(
// CHECK: "oneflow.exp_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @exp_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.exp_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @expm1_grad(
// CHECK: "oneflow.expm1_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @expm1_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.expm1_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @fast_gelu_grad(
// CHECK: "oneflow.fast_gelu_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @fast_gelu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.fast_gelu_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @floordiv_x_grad(
// CHECK: "oneflow.floordiv_x_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @floordiv_x_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.floordiv_x_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @floordiv_y_grad(
// CHECK: "oneflow.floordiv_y_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @floordiv_y_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.floordiv_y_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @gelu_grad(
// CHECK: "oneflow.gelu_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @gelu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.gelu_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardshrink_grad(
// CHECK: "oneflow.hardshrink_grad"({{.*}}) {lambd = 5.000000e-01 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardshrink_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardshrink_grad"(%arg0, %arg1) {lambd = 5.000000e-01 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardsigmoid_grad(
// CHECK: "oneflow.hardsigmoid_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardsigmoid_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardsigmoid_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardswish_grad(
// CHECK: "oneflow.hardswish_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardswish_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardswish_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardtanh_grad(
// CHECK: "oneflow.hardtanh_grad"({{.*}}) {max_val = 5.000000e-01 : f64, min_val = -1.000000e+00 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardtanh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardtanh_grad"(%arg0, %arg1) {max_val = 5.000000e-01 : f64, min_val = -1.000000e+00 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log10_grad(
// CHECK: "oneflow.log10_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log10_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log10_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log1p_grad(
// CHECK: "oneflow.log1p_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log1p_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log1p_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log2_grad(
// CHECK: "oneflow.log2_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log2_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log2_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log_grad(
// CHECK: "oneflow.log_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log_sigmoid_grad(
// CHECK: "oneflow.log_sigmoid_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log_sigmoid_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log_sigmoid_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @mish_grad(
// CHECK: "oneflow.mish_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @mish_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.mish_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @quick_gelu_grad(
// CHECK: "oneflow.quick_gelu_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @quick_gelu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.quick_gelu_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @reciprocal_grad(
// CHECK: "oneflow.reciprocal_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @reciprocal_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.reciprocal_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @reciprocal_no_nan_grad(
// CHECK: "oneflow.reciprocal_no_nan_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @reciprocal_no_nan_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.reciprocal_no_nan_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @rsqrt_grad(
// CHECK: "oneflow.rsqrt_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @rsqrt_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.rsqrt_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @scalar_reverse_pow_grad(
// CHECK: "oneflow.scalar_reverse_pow_grad"({{.*}}) {float_operand = 1.700000e+00 : f64, has_float_operand = true} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @scalar_reverse_pow_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.scalar_reverse_pow_grad"(%arg0, %arg1) {float_operand = 1.700000e+00 : f64, has_float_operand = true} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @selu_grad(
// CHECK: "oneflow.selu_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @selu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.selu_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @silu_grad(
// CHECK: "oneflow.silu_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @silu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.silu_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sinh_grad(
// CHECK: "oneflow.sinh_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @sinh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sinh_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @softplus_grad(
// CHECK: "oneflow.softplus_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @softplus_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softplus_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @softsign_grad(
// CHECK: "oneflow.softsign_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @softsign_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softsign_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sqrt_grad(
// CHECK: "oneflow.sqrt_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @sqrt_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sqrt_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @square_grad(
// CHECK: "oneflow.square_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @square_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.square_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @square_relu_grad(
// CHECK: "oneflow.square_relu_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @square_relu_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.square_relu_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @tan_grad(
// CHECK: "oneflow.tan_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @tan_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.tan_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @tanh_grad(
// CHECK: "oneflow.tanh_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @tanh_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.tanh_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @threshold_grad(
// CHECK: "oneflow.threshold_grad"({{.*}}) {threshold_val = 5.000000e-01 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @threshold_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.threshold_grad"(%arg0, %arg1) {threshold_val = 5.000000e-01 : f64} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @trunc_grad(
// CHECK: "oneflow.trunc_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @trunc_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.trunc_grad"(%arg0, %arg1) : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @truncdiv_x_grad(
// CHECK: "oneflow.truncdiv_x_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @truncdiv_x_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.truncdiv_x_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @truncdiv_y_grad(
// CHECK: "oneflow.truncdiv_y_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @truncdiv_y_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.truncdiv_y_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @xdivy_x_grad(
// CHECK: "oneflow.xdivy_x_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @xdivy_x_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.xdivy_x_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @xdivy_y_grad(
// CHECK: "oneflow.xdivy_y_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @xdivy_y_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.xdivy_y_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @xlogy_x_grad(
// CHECK: "oneflow.xlogy_x_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @xlogy_x_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.xlogy_x_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @xlogy_y_grad(
// CHECK: "oneflow.xlogy_y_grad"({{.*}}) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @xlogy_y_grad(%arg0: tensor<2x3xf16>, %arg1: tensor<2x3xf16>, %arg2: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.xlogy_y_grad"(%arg0, %arg1, %arg2) : (tensor<2x3xf16>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
