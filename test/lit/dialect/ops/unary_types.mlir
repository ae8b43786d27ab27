// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @acos(
// CHECK: "oneflow.acos"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @acos(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.acos"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @acosh(
// CHECK: "oneflow.acosh"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @acosh(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.acosh"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @asin(
// CHECK: "oneflow.asin"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @asin(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.asin"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @asinh(
// CHECK: "oneflow.asinh"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @asinh(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.asinh"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @atan(
// CHECK: "oneflow.atan"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @atan(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.atan"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @atanh(
// CHECK: "oneflow.atanh"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @atanh(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.atanh"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @celu(
// CHECK: "oneflow.celu"({{.*}}) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @celu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.celu"(%arg0) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @cosh(
// CHECK: "oneflow.cosh"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @cosh(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.cosh"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @elu(
// CHECK: "oneflow.elu"({{.*}}) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @elu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.elu"(%arg0) {alpha = 1.500000e+00 : f64} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @erf(
// CHECK: "oneflow.erf"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @erf(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.erf"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @erfc(
// CHECK: "oneflow.erfc"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @erfc(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.erfc"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @exp2(
// CHECK: "oneflow.exp2"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @exp2(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.exp2"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @expm1(
// CHECK: "oneflow.expm1"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @expm1(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.expm1"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @fast_gelu(
// CHECK: "oneflow.fast_gelu"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @fast_gelu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.fast_gelu"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardshrink(
// CHECK: "oneflow.hardshrink"({{.*}}) {lambd = 5.000000e-01 : f64} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardshrink(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardshrink"(%arg0) {lambd = 5.000000e-01 : f64} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardsigmoid(
// CHECK: "oneflow.hardsigmoid"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardsigmoid(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardsigmoid"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @hardswish(
// CHECK: "oneflow.hardswish"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @hardswish(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.hardswish"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @isfinite(
// CHECK: "oneflow.isfinite"({{.*}}) : (tensor<5xf16>) -> tensor<5xi1>
func.func @isfinite(%arg0: tensor<5xf16>) -> tensor<*xi1> {
  %0 = "oneflow.isfinite"(%arg0) : (tensor<5xf16>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @isinf(
// CHECK: "oneflow.isinf"({{.*}}) : (tensor<5xf16>) -> tensor<5xi1>
func.func @isinf(%arg0: tensor<5xf16>) -> tensor<*xi1> {
  %0 = "oneflow.isinf"(%arg0) : (tensor<5xf16>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @leaky_relu(
// CHECK: "oneflow.leaky_relu"({{.*}}) {alpha = 2.500000e-01 : f32} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @leaky_relu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.leaky_relu"(%arg0) {alpha = 2.500000e-01 : f32} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log10(
// CHECK: "oneflow.log10"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log10(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log10"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log1p(
// CHECK: "oneflow.log1p"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log1p(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log1p"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log2(
// CHECK: "oneflow.log2"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log2(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log2"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log_sigmoid(
// CHECK: "oneflow.log_sigmoid"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @log_sigmoid(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.log_sigmoid"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @mish(
// CHECK: "oneflow.mish"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @mish(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.mish"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @quick_gelu(
// CHECK: "oneflow.quick_gelu"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @quick_gelu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.quick_gelu"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @reciprocal_no_nan(
// CHECK: "oneflow.reciprocal_no_nan"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @reciprocal_no_nan(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.reciprocal_no_nan"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @rsqrt(
// CHECK: "oneflow.rsqrt"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @rsqrt(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.rsqrt"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @selu(
// CHECK: "oneflow.selu"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @selu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.selu"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @silu(
// CHECK: "oneflow.silu"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @silu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.silu"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sinh(
// CHECK: "oneflow.sinh"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @sinh(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sinh"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @softshrink(
// CHECK: "oneflow.softshrink"({{.*}}) {alpha = 5.000000e-01 : f64} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @softshrink(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softshrink"(%arg0) {alpha = 5.000000e-01 : f64} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @softsign(
// CHECK: "oneflow.softsign"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @softsign(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softsign"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @square_relu(
// CHECK: "oneflow.square_relu"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @square_relu(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.square_relu"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @tan(
// CHECK: "oneflow.tan"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @tan(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.tan"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @threshold(
// CHECK: "oneflow.threshold"({{.*}}) {threshold_val = 5.000000e-01 : f64, value = -2.000000e+00 : f64} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @threshold(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.threshold"(%arg0) {threshold_val = 5.000000e-01 : f64, value = -2.000000e+00 : f64} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @abs(
// CHECK: "oneflow.abs"({{.*}}) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
func.func @abs(%arg0: tensor<4xcomplex<f32>>) -> tensor<*xf32> {
  %0 = "oneflow.abs"(%arg0) : (tensor<4xcomplex<f32>>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @bitwise_not(
// CHECK: "oneflow.bitwise_not"({{.*}}) : (tensor<i1>) -> tensor<i1>
func.func @bitwise_not(%arg0: tensor<i1>) -> tensor<*xi1> {
  %0 = "oneflow.bitwise_not"(%arg0) : (tensor<i1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @ceil(
// CHECK: "oneflow.ceil"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @ceil(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.ceil"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @cos(
// CHECK: "oneflow.cos"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @cos(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.cos"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @exp(
// CHECK: "oneflow.exp"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @exp(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.exp"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @frac(
// CHECK: "oneflow.frac"({{.*}}) : (tensor<4xf16>) -> tensor<4xf16>
func.func @frac(%arg0: tensor<4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.frac"(%arg0) : (tensor<4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @log(
// CHECK: "oneflow.log"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @log(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.log"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @not_equal_zero(
// CHECK: "oneflow.not_equal_zero"({{.*}}) : (tensor<4xf16>) -> tensor<4xf16>
func.func @not_equal_zero(%arg0: tensor<4xf16>) -> tensor<*xf16> {
  %0 = "oneflow.not_equal_zero"(%arg0) : (tensor<4xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @reciprocal(
// CHECK: "oneflow.reciprocal"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @reciprocal(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.reciprocal"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @rint(
// CHECK: "oneflow.rint"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @rint(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.rint"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @round(
// CHECK: "oneflow.round"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @round(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.round"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sigmoid(
// CHECK: "oneflow.sigmoid"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @sigmoid(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sigmoid"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sign(
// CHECK: "oneflow.sign"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @sign(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.sign"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sin(
// CHECK: "oneflow.sin"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @sin(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.sin"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @softplus(
// CHECK: "oneflow.softplus"({{.*}}) {beta = 2.000000e+00 : f64, threshold = 2.500000e+00 : f64} : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @softplus(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.softplus"(%arg0) {beta = 2.000000e+00 : f64, threshold = 2.500000e+00 : f64} : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @sqrt(
// CHECK: "oneflow.sqrt"({{.*}}) : (tensor<5xcomplex<f32>>) -> tensor<5xcomplex<f32>>
func.func @sqrt(%arg0: tensor<5xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.sqrt"(%arg0) : (tensor<5xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @square(
// CHECK: "oneflow.square"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @square(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.square"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @tanh(
// CHECK: "oneflow.tanh"({{.*}}) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
func.func @tanh(%arg0: tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>> {
  %0 = "oneflow.tanh"(%arg0) : (tensor<3xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  return %0 : tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @trunc(
// CHECK: "oneflow.trunc"({{.*}}) : (tensor<2x3xf16>) -> tensor<2x3xf16>
func.func @trunc(%arg0: tensor<2x3xf16>) -> tensor<*xf16> {
  %0 = "oneflow.trunc"(%arg0) : (tensor<2x3xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}
