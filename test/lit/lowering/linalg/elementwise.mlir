// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// An element read whose position is affine in the loops is an operand; equal reads are one operand.

// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[COLUMN:.*]] = affine_map<(d0, d1) -> (d0, 0)>
// CHECK-DAG: #[[SWAP:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG: #[[STEP:.*]] = affine_map<(d0) -> (d0 * 2 + 1)>

// CHECK-LABEL: func.func @broadcast(
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x3xf32>
// CHECK: linalg.generic {indexing_maps = [#[[COLUMN]], #[[ROW]], #[[ID]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME: ins(%arg0, %arg1 : tensor<2x1xf32>, tensor<3xf32>) outs(%[[E]] : tensor<2x3xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: linalg.yield %[[S]] : f32
func.func @broadcast(%a: tensor<2x1xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @one_operand(
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.mulf %[[A]], %[[A]] : f32
func.func @one_operand(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "oneflow.broadcast_mul"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// 16-bit floats are widened inside and rounded at the end.

// CHECK-LABEL: func.func @transposed(
// CHECK: linalg.generic {indexing_maps = [#[[SWAP]], #[[ID]]]
func.func @transposed(%a: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "oneflow.transpose"(%a) {perm = [1 : si32, 0 : si32]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @half(
// CHECK: %[[W:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[W]] : f32
// CHECK-NEXT: %[[N:.*]] = arith.truncf %[[T]] : f32 to f16
// CHECK-NEXT: linalg.yield %[[N]] : f16
func.func @half(%a: tensor<4xf16>) -> tensor<4xf16> {
  %0 = "oneflow.tanh"(%a) : (tensor<4xf16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// CHECK-LABEL: func.func @strided(
// CHECK: linalg.generic {indexing_maps = [#[[STEP]], #{{.*}}]
func.func @strided(%a: tensor<8xf32>) -> tensor<4xf32> {
  %0 = "oneflow.slice"(%a) {start = [1 : si64], stop = [8 : si64], step = [2 : si64]} : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A plain position that spans part of a dimension is not an operand: linalg takes its extent from operands.

// CHECK-LABEL: func.func @head(
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4xf32>)
// CHECK: %[[I:.*]] = linalg.index 0 : index
// CHECK-NEXT: tensor.extract %arg0[%[[I]]] : tensor<8xf32>
func.func @head(%a: tensor<8xf32>) -> tensor<4xf32> {
  %0 = "oneflow.slice"(%a) {start = [0 : si64], stop = [4 : si64], step = [1 : si64]} : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @uniform(
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x3xi64>
// CHECK: %[[C:.*]] = arith.constant 7 : i64
// CHECK: linalg.fill ins(%[[C]] : i64) outs(%[[E]] : tensor<2x3xi64>) -> tensor<2x3xi64>
func.func @uniform() -> tensor<2x3xi64> {
  %0 = "oneflow.constant"() {dtype = 6 : i32, shape = [2 : si64, 3 : si64], is_floating_value = false, integer_value = 7 : si64} : () -> tensor<2x3xi64>
  return %0 : tensor<2x3xi64>
}

// uint8 tensors become i8 with unsigned arithmetic, also in signatures.

// CHECK-LABEL: func.func @unsigned(
// CHECK-SAME: %arg0: tensor<4xi8>, %arg1: tensor<4xi8>) -> tensor<4xi8>
// CHECK: arith.maxui
func.func @unsigned(%a: tensor<4xui8>, %b: tensor<4xui8>) -> tensor<4xui8> {
  %0 = "oneflow.broadcast_maximum"(%a, %b) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  return %0 : tensor<4xui8>
}
