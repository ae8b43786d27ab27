// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @curves(
// CHECK-NEXT: "oneflow.erfinv"(%{{.*}}) : (tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.lgamma"(%{{.*}}) : (tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.digamma"(%{{.*}}) : (tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.trigamma"(%{{.*}}) : (tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.lgamma_grad"(%{{.*}}, %{{.*}}) : (tensor<?x2xf16>, tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.digamma_grad"(%{{.*}}, %{{.*}}) : (tensor<?x2xf16>, tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.frac"(%{{.*}}) : (tensor<?x2xf16>) -> tensor<?x2xf16>
// CHECK-NEXT: "oneflow.not_equal_zero"(%{{.*}}) : (tensor<3xi32>) -> tensor<3xi32>
func.func @curves(%x: tensor<?x2xf16>, %i: tensor<3xi32>) -> (tensor<*xf16>, tensor<*xi32>) {
  %0 = "oneflow.erfinv"(%x) : (tensor<?x2xf16>) -> tensor<*xf16>
  %1 = "oneflow.lgamma"(%0) : (tensor<*xf16>) -> tensor<*xf16>
  %2 = "oneflow.digamma"(%1) : (tensor<*xf16>) -> tensor<*xf16>
  %3 = "oneflow.trigamma"(%2) : (tensor<*xf16>) -> tensor<*xf16>
  %4 = "oneflow.lgamma_grad"(%3, %0) : (tensor<*xf16>, tensor<*xf16>) -> tensor<*xf16>
  %5 = "oneflow.digamma_grad"(%4, %0) : (tensor<*xf16>, tensor<*xf16>) -> tensor<*xf16>
  %6 = "oneflow.frac"(%5) : (tensor<*xf16>) -> tensor<*xf16>
  %7 = "oneflow.not_equal_zero"(%i) : (tensor<3xi32>) -> tensor<*xi32>
  return %6, %7 : tensor<*xf16>, tensor<*xi32>
}

// CHECK-LABEL: func.func @broadcast_zeta(
// CHECK: "oneflow.broadcast_zeta"({{.*}}) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @broadcast_zeta(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> tensor<*xf32> {
  %0 = "oneflow.broadcast_zeta"(%arg0, %arg1) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
