// RUN: %python %S/Inputs/build.py %S/Inputs/halve.cpp %t.so
// RUN: oneflow-opt --load-ops=%t.so --oneflow-infer-types %s | FileCheck %s
// RUN: oneflow-opt --load-ops=%t.so --show-op=lit_halve | FileCheck --check-prefix=SHOW %s

// SHOW: oneflow.lit_halve(x, axis: int32 = 0) -> y
// SHOW: A user's operator, registered at {{.*}}halve.cpp:5 as lit_halve.
// SHOW: sbp:
// SHOW: kernel:

// CHECK-LABEL: func.func @halve
// CHECK: oneflow.lit_halve{{.*}} (tensor<6x8xf32>) -> tensor<3x8xf32>
// CHECK: oneflow.lit_halve{{.*}}axis = 1{{.*}} (tensor<3x8xf32>) -> tensor<3x4xf32>
// CHECK: return {{.*}} : tensor<3x4xf32>
func.func @halve(%x: tensor<6x8xf32>) -> tensor<*xf32> {
  %0 = "oneflow.lit_halve"(%x) : (tensor<6x8xf32>) -> tensor<*xf32>
  %1 = "oneflow.lit_halve"(%0) {axis = 1 : i32} : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// CHECK-LABEL: func.func @dynamic
// CHECK: oneflow.lit_halve{{.*}} (tensor<?x8xf32>) -> tensor<?x8xf32>
func.func @dynamic(%x: tensor<?x8xf32>) -> tensor<*xf32> {
  %0 = "oneflow.lit_halve"(%x) : (tensor<?x8xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
