// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @reduce_all(
// CHECK: "oneflow.reduce_all"({{.*}}) {axis = array<i32: 1>} : (tensor<2x3x2xi1>) -> tensor<2x2xi1>
func.func @reduce_all(%arg0: tensor<2x3x2xi1>) -> tensor<*xi1> {
  %0 = "oneflow.reduce_all"(%arg0) {axis = array<i32: 1>} : (tensor<2x3x2xi1>) -> tensor<*xi1>
  return %0 : tensor<*xi1>
}

// CHECK-LABEL: func.func @reduce_min(
// CHECK: "oneflow.reduce_min"({{.*}}) {allow_empty = true, axis = array<i32>, keepdims = true} : (tensor<0x3xui8>) -> tensor<1x1xui8>
func.func @reduce_min(%arg0: tensor<0x3xui8>) -> tensor<*xui8> {
  %0 = "oneflow.reduce_min"(%arg0) {allow_empty = true, axis = array<i32>, keepdims = true} : (tensor<0x3xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}

// CHECK-LABEL: func.func @reduce_nansum(
// CHECK: "oneflow.reduce_nansum"({{.*}}) {axis = array<i32: 1>} : (tensor<2x3x2xf16>) -> tensor<2x2xf16>
func.func @reduce_nansum(%arg0: tensor<2x3x2xf16>) -> tensor<*xf16> {
  %0 = "oneflow.reduce_nansum"(%arg0) {axis = array<i32: 1>} : (tensor<2x3x2xf16>) -> tensor<*xf16>
  return %0 : tensor<*xf16>
}

// CHECK-LABEL: func.func @reduce_prod(
// CHECK: "oneflow.reduce_prod"({{.*}}) {axis = array<i32: 1>} : (tensor<2x3x2xui8>) -> tensor<2x2xui8>
func.func @reduce_prod(%arg0: tensor<2x3x2xui8>) -> tensor<*xui8> {
  %0 = "oneflow.reduce_prod"(%arg0) {axis = array<i32: 1>} : (tensor<2x3x2xui8>) -> tensor<*xui8>
  return %0 : tensor<*xui8>
}
