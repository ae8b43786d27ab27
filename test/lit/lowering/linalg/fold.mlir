// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[C:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>

// The outs hold the initial values; only the combination of an associative fold may be reassociated.

// CHECK-LABEL: func.func @contraction(
// CHECK: %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[F:.*]] = linalg.fill ins(%[[Z]] : f32)
// CHECK: linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME: ins(%arg0, %arg1 : tensor<3x4xf32>, tensor<4x5xf32>) outs(%[[F]] : tensor<3x5xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[X]], %[[Y]] : f32
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[ACC]], %[[P]] fastmath<reassoc,nsz,contract> : f32
// CHECK-NEXT: linalg.yield %[[S]] : f32
func.func @contraction(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0 = "oneflow.matmul"(%a, %b) : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// f16 is summed in f32.

// CHECK-LABEL: func.func @half(
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<3x4xf16>) outs(%{{.*}} : tensor<3xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: f16, %[[ACC:.*]]: f32):
// CHECK-NEXT: arith.extf %[[X]] : f16 to f32
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]}
// CHECK: arith.truncf
func.func @half(%a: tensor<3x4xf16>) -> tensor<3xf16> {
  %0 = "oneflow.reduce_sum"(%a) {axis = [1 : si32], keepdims = false} : (tensor<3x4xf16>) -> tensor<3xf16>
  return %0 : tensor<3xf16>
}

// Integers wrap in any order, without flags.

// CHECK-LABEL: func.func @integers(
// CHECK: arith.addi %{{.*}}, %{{.*}} : i32
func.func @integers(%a: tensor<3x4xi32>) -> tensor<4xi32> {
  %0 = "oneflow.reduce_sum"(%a) {axis = [0 : si32], keepdims = false} : (tensor<3x4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
