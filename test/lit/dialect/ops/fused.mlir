// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @boxes(
// CHECK-NEXT: "oneflow.fused_get_center_dist"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT: "oneflow.fused_get_intersection_area"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT: "oneflow.fused_get_convex_diagonal_squared"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT: "oneflow.fused_get_iou"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {eps = 1.000000e+00 : f32} : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
// CHECK-NEXT: "oneflow.fused_get_ciou_diagonal_angle"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
func.func @boxes(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.fused_get_center_dist"(%a, %b, %a, %b, %a, %b, %a, %b) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
  %1 = "oneflow.fused_get_intersection_area"(%a, %b, %a, %b, %a, %b, %a, %b) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
  %2 = "oneflow.fused_get_convex_diagonal_squared"(%a, %b, %a, %b, %a, %b, %a, %b) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
  %3 = "oneflow.fused_get_iou"(%a, %b, %a, %b, %1) {eps = 1.0 : f32} : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<*xf32>) -> tensor<*xf32>
  %4 = "oneflow.fused_get_ciou_diagonal_angle"(%a, %b, %a, %b) : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
  return %0, %2, %3, %4 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @box_gradients(
// CHECK-NEXT: "oneflow.fused_get_center_dist_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.fused_get_intersection_area_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.fused_get_convex_diagonal_squared_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.fused_get_iou_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {eps = 1.000000e+00 : f32} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: "oneflow.fused_get_ciou_diagonal_angle_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
func.func @box_gradients(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0:8 = "oneflow.fused_get_center_dist_grad"(%a, %b, %a, %b, %a, %b, %a, %b, %a) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:8 = "oneflow.fused_get_intersection_area_grad"(%a, %b, %a, %b, %a, %b, %a, %b, %a) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %2:8 = "oneflow.fused_get_convex_diagonal_squared_grad"(%a, %a, %b, %a, %b, %a, %b, %a, %b) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %3:3 = "oneflow.fused_get_iou_grad"(%a, %b, %a, %b, %a, %b) {eps = 1.0 : f32} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %4:4 = "oneflow.fused_get_ciou_diagonal_angle_grad"(%a, %b, %a, %b, %a) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0, %2#0, %3#0, %4#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @others(
// CHECK-NEXT: "oneflow.fused_bias_add_gelu"(%{{.*}}, %{{.*}}) {axis = 1 : i32} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: "oneflow.fused_bias_add_gelu_grad"(%{{.*}}, %{{.*}}, %{{.*}}) {axis = 1 : i32} : (tensor<2x3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: "oneflow.fused_fast_gelu_mul"(%{{.*}}, %{{.*}}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: "oneflow.fused_fast_gelu_mul_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK-NEXT: "oneflow.cast_like"(%{{.*}}, %{{.*}}) : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x3xi32>
// CHECK-NEXT: "oneflow.dot"(%{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
// CHECK-NEXT: "oneflow.fused_weighted_sum"(%{{.*}}, %{{.*}}) {weights = array<f32: 1.000000e+00, 2.000000e+00>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: "oneflow.sqrt_square_sum"(%{{.*}}) : (tensor<2x3xf32>) -> tensor<f32>
// CHECK-NEXT: "oneflow.tuple_identity"(%{{.*}}, %{{.*}}) : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
func.func @others(%x: tensor<2x3xf32>, %b: tensor<3xf32>, %n: tensor<i32>) -> (tensor<*xi32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.fused_bias_add_gelu"(%x, %b) {axis = 1 : si32} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<*xf32>
  %1 = "oneflow.fused_bias_add_gelu_grad"(%x, %b, %0) {axis = 1 : si32} : (tensor<2x3xf32>, tensor<3xf32>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.fused_fast_gelu_mul"(%1, %x) : (tensor<*xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  %3:2 = "oneflow.fused_fast_gelu_mul_grad"(%2, %x, %x) : (tensor<*xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %4 = "oneflow.cast_like"(%x, %n) : (tensor<2x3xf32>, tensor<i32>) -> tensor<*xi32>
  %5 = "oneflow.dot"(%b, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<*xf32>
  %6 = "oneflow.fused_weighted_sum"(%x, %x) {weights = [1.0 : f32, 2.0 : f32]} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>
  %7 = "oneflow.sqrt_square_sum"(%x) : (tensor<2x3xf32>) -> tensor<*xf32>
  %8:2 = "oneflow.tuple_identity"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %4, %5, %6, %7, %8#0 : tensor<*xi32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @coordinates(
// CHECK-NEXT: "oneflow.fused_get_boundding_boxes_coord"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: "oneflow.fused_get_boundding_boxes_coord_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
func.func @coordinates(%a: tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:8 = "oneflow.fused_get_boundding_boxes_coord"(%a, %a, %a, %a, %a, %a, %a, %a) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:8 = "oneflow.fused_get_boundding_boxes_coord_grad"(%a, %a, %a, %a, %a, %a, %a, %a) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @ciou(
// CHECK-NEXT: "oneflow.fused_get_ciou_result"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {eps = 1.250000e-01 : f32} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK-NEXT: "oneflow.fused_get_ciou_result_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
func.func @ciou(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:2 = "oneflow.fused_get_ciou_result"(%a, %a, %a, %a) {eps = 1.250000e-01 : f32} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %1:4 = "oneflow.fused_get_ciou_result_grad"(%b, %b, %b, %b) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @biased(
// CHECK-NEXT: "oneflow.fused_bias_add_mask_scale"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {axis = 1 : i32, scale = 1.500000e+00 : f32} : (tensor<3x2xf32>, tensor<2xf32>, tensor<3x2xi1>, tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: "oneflow.fused_scale_tril"(%{{.*}}) {diagonal = 1 : i64, floating_scale_value = 5.000000e-01 : f64, is_floating_scale_value = true} : (tensor<3x3x4xf32>) -> tensor<3x3x4xf32>
// CHECK-NEXT: "oneflow.fused_cast_scale"(%{{.*}}, %{{.*}}) {scale = 5.000000e-01 : f64} : (tensor<3x2xf32>, tensor<1xf64>) -> tensor<3x2xf64>
// CHECK: "oneflow.fused_clip_grad"(%{{.*}}, %{{.*}}) : (tensor<*xf32>, tensor<*xf32>) -> (tensor<1xf32>, tensor<*xf32>, tensor<*xf32>)
func.func @biased(%a: tensor<3x2xf32>, %b: tensor<2xf32>, %c: tensor<3x2xi1>, %d: tensor<3x3x4xf32>, %e: tensor<1xf64>, %f: tensor<2x3xf32>, %g: tensor<3xf32>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf64>, tensor<*xf32>) {
  %0 = "oneflow.fused_bias_add_mask_scale"(%a, %b, %c, %a) {axis = 1 : i32, scale = 1.500000e+00 : f32} : (tensor<3x2xf32>, tensor<2xf32>, tensor<3x2xi1>, tensor<3x2xf32>) -> tensor<*xf32>
  %1 = "oneflow.fused_scale_tril"(%d) {diagonal = 1 : i64, floating_scale_value = 5.000000e-01 : f64, is_floating_scale_value = true} : (tensor<3x3x4xf32>) -> tensor<*xf32>
  %2 = "oneflow.fused_cast_scale"(%a, %e) {scale = 5.000000e-01 : f64} : (tensor<3x2xf32>, tensor<1xf64>) -> tensor<*xf64>
  %3:3 = "oneflow.fused_clip_grad"(%f, %g) : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0, %1, %2, %3#0 : tensor<*xf32>, tensor<*xf32>, tensor<*xf64>, tensor<*xf32>
}
