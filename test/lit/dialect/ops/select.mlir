// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s --check-prefix=LAW

// CHECK-LABEL: func.func @types
func.func @types(%c: tensor<2x1xi1>, %x: tensor<3xf16>, %y: tensor<1x?xf16>)
    -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>, tensor<*xi64>) {
  // CHECK: "oneflow.where"({{.*}}) : (tensor<2x1xi1>, tensor<3xf16>, tensor<1x?xf16>) -> tensor<2x3xf16>
  %0 = "oneflow.where"(%c, %x, %y) : (tensor<2x1xi1>, tensor<3xf16>, tensor<1x?xf16>) -> tensor<*xf16>
  // CHECK: "oneflow.masked_fill"({{.*}}) {float_operand = 5.000000e-01 : f64, has_float_operand = true} : (tensor<3xf16>, tensor<2x1xi1>) -> tensor<2x3xf16>
  %1 = "oneflow.masked_fill"(%x, %c) {has_float_operand = true, float_operand = 0.5 : f64} : (tensor<3xf16>, tensor<2x1xi1>) -> tensor<*xf16>
  // CHECK: "oneflow.clip_by_scalar"({{.*}}) {floating_max = 1.000000e+00 : f64, floating_min = -1.000000e+00 : f64} : (tensor<1x?xf16>) -> tensor<1x?xf16>
  %2 = "oneflow.clip_by_scalar"(%y) {floating_min = -1.0 : f64, floating_max = 1.0 : f64} : (tensor<1x?xf16>) -> tensor<*xf16>
  // CHECK: "oneflow.cast"({{.*}}) {dtype = i64} : (tensor<1x?xf16>) -> tensor<1x?xi64>
  %3 = "oneflow.cast"(%y) {dtype = 6 : i32} : (tensor<1x?xf16>) -> tensor<*xi64>
  return %0, %1, %2, %3 : tensor<*xf16>, tensor<*xf16>, tensor<*xf16>, tensor<*xi64>
}

// LAW-LABEL: func.func @casts
// LAW-SAME: (%[[X:.*]]: tensor<3xbf16>, %[[Y:.*]]: tensor<3xf32>)
func.func @casts(%x: tensor<3xbf16>, %y: tensor<3xf32>) -> (tensor<3xbf16>, tensor<3xf32>, tensor<3xf32>) {
  // Every bf16 is an f32, not every f32 is a bf16.
  // LAW-COUNT-2: "oneflow.cast"
  // LAW-NOT: "oneflow.cast"
  // LAW: return %[[X]], %[[Y]], %{{.*}}
  %0 = "oneflow.cast"(%x) {dtype = f32} : (tensor<3xbf16>) -> tensor<3xf32>
  %1 = "oneflow.cast"(%0) {dtype = bf16} : (tensor<3xf32>) -> tensor<3xbf16>
  %2 = "oneflow.cast"(%y) {dtype = f32} : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "oneflow.cast"(%y) {dtype = bf16} : (tensor<3xf32>) -> tensor<3xbf16>
  %4 = "oneflow.cast"(%3) {dtype = f32} : (tensor<3xbf16>) -> tensor<3xf32>
  return %1, %2, %4 : tensor<3xbf16>, tensor<3xf32>, tensor<3xf32>
}
