// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-canonicalize | FileCheck %s --check-prefix=LAW

// The result has the operand's type; tests of elements give i1.

// CHECK-LABEL: func.func @types
func.func @types(%x: tensor<2x?xbf16>, %n: tensor<3xi32>) -> (tensor<*xbf16>, tensor<*xi1>, tensor<*xi32>, tensor<*xi1>) {
  // CHECK: "oneflow.gelu"({{.*}}) : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  %0 = "oneflow.gelu"(%x) : (tensor<2x?xbf16>) -> tensor<*xbf16>
  // CHECK: "oneflow.hardtanh"({{.*}}) {max_val = 1.000000e+00 : f64, min_val = -1.000000e+00 : f64} : (tensor<2x?xbf16>) -> tensor<2x?xbf16>
  %1 = "oneflow.hardtanh"(%0) {min_val = -1.0 : f64, max_val = 1.0 : f64} : (tensor<*xbf16>) -> tensor<*xbf16>
  // CHECK: "oneflow.isnan"({{.*}}) : (tensor<2x?xbf16>) -> tensor<2x?xi1>
  %2 = "oneflow.isnan"(%1) : (tensor<*xbf16>) -> tensor<*xi1>
  // CHECK: "oneflow.negative"({{.*}}) : (tensor<3xi32>) -> tensor<3xi32>
  %3 = "oneflow.negative"(%n) : (tensor<3xi32>) -> tensor<*xi32>
  // CHECK: "oneflow.logical_not"({{.*}}) : (tensor<3xi32>) -> tensor<3xi1>
  %4 = "oneflow.logical_not"(%3) : (tensor<*xi32>) -> tensor<*xi1>
  return %1, %2, %3, %4 : tensor<*xbf16>, tensor<*xi1>, tensor<*xi32>, tensor<*xi1>
}

// LAW-LABEL: func.func @idempotent
func.func @idempotent(%x: tensor<4xf32>) -> tensor<4xf32> {
  // LAW-COUNT-1: "oneflow.relu"
  // LAW-NOT: "oneflow.relu"
  // LAW-COUNT-1: "oneflow.floor"
  // LAW-NOT: "oneflow.floor"
  %0 = "oneflow.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "oneflow.relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "oneflow.floor"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "oneflow.floor"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  // LAW: return
  return %3 : tensor<4xf32>
}

// LAW-LABEL: func.func @involution
// LAW-SAME: (%[[X:.*]]: tensor<4xi1>, %[[Y:.*]]: tensor<4xf32>)
func.func @involution(%x: tensor<4xi1>, %y: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>) {
  // LAW-NEXT: return %[[X]], %[[Y]]
  %0 = "oneflow.logical_not"(%x) : (tensor<4xi1>) -> tensor<4xi1>
  %1 = "oneflow.logical_not"(%0) : (tensor<4xi1>) -> tensor<4xi1>
  %2 = "oneflow.negative"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "oneflow.negative"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "oneflow.identity"(%3) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %4 : tensor<4xi1>, tensor<4xf32>
}

// Two `not` of a number give the truth value of the number, not the number.

// LAW-LABEL: func.func @not_an_involution
func.func @not_an_involution(%x: tensor<4xi32>) -> tensor<4xi1> {
  // LAW-COUNT-2: "oneflow.logical_not"
  %0 = "oneflow.logical_not"(%x) : (tensor<4xi32>) -> tensor<4xi1>
  %1 = "oneflow.logical_not"(%0) : (tensor<4xi1>) -> tensor<4xi1>
  return %1 : tensor<4xi1>
}
