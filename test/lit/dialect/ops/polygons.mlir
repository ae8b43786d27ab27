// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @object_segmentation_polygon_to_mask(
// CHECK: "oneflow.object_segmentation_polygon_to_mask"({{.*}}) {shape = array<i64: 2, 4, 6>} : (tensor<3x6x2xf32>, tensor<3x6x3xi32>, tensor<3x2xi32>) -> tensor<3x2x4x6xi8>
func.func @object_segmentation_polygon_to_mask(%arg0: tensor<3x6x2xf32>, %arg1: tensor<3x6x3xi32>, %arg2: tensor<3x2xi32>) -> tensor<*xi8> {
  %0 = "oneflow.object_segmentation_polygon_to_mask"(%arg0, %arg1, %arg2) {shape = array<i64: 2, 4, 6>} : (tensor<3x6x2xf32>, tensor<3x6x3xi32>, tensor<3x2xi32>) -> tensor<*xi8>
  return %0 : tensor<*xi8>
}
