// RUN: oneflow-opt %s --oneflow-infer-sbp=explain -o %t 2>&1 | FileCheck %s

// CHECK: @f on a mesh of 2
// CHECK-NEXT: explain.mlir:[[#]]:3: argument () -> (tensor<8x4xf32>)
// CHECK-NEXT: {{^}}    * -> S(1):
// CHECK-NEXT: argument () -> (tensor<4x6xf32>)
// CHECK-NEXT: {{^}}    * -> S(0):
// CHECK-NEXT: oneflow.matmul (tensor<8x4xf32>, tensor<4x6xf32>) -> (tensor<8x6xf32>)
// CHECK-NEXT: {{^}}      S(0), B -> S(0): order 0, 160 bytes
// CHECK-NEXT: {{^}}    * S(1), S(0) -> P: order -20, 0 bytes
// CHECK: {{^}}      B, B -> B: order 0, 224 bytes
// CHECK-NEXT: oneflow.relu
// CHECK-NEXT: {{^}}    * S(0) -> S(0): order 0, 192 bytes
// CHECK: {{^}}      B -> B: order 0, 384 bytes
// CHECK: total: {{.*}} us, 192 bytes moved, {{.*}} bytes on a device
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @f(%x: tensor<8x4xf32> {oneflow.nd_sbp = [#sbp.split<1>]},
               %w: tensor<4x6xf32> {oneflow.nd_sbp = [#sbp.split<0>]}) -> tensor<8x6xf32> {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %1 = "oneflow.relu"(%0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}
