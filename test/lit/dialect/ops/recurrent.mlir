// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @cells(
// CHECK-NEXT: "oneflow.fused_lstm_cell"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<?x8xf16>, tensor<?x8xf16>, tensor<?x2xf16>) -> (tensor<?x2xf16>, tensor<?x2xf16>, tensor<?x8xf16>)
// CHECK-NEXT: "oneflow.fused_gru_cell"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<?x6xf16>, tensor<?x6xf16>, tensor<?x2xf16>) -> (tensor<?x2xf16>, tensor<?x10xf16>)
func.func @cells(%a: tensor<?x8xf16>, %s: tensor<?x2xf16>, %g: tensor<?x6xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:3 = "oneflow.fused_lstm_cell"(%a, %a, %s) : (tensor<?x8xf16>, tensor<?x8xf16>, tensor<?x2xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>)
  %1:2 = "oneflow.fused_gru_cell"(%g, %g, %s) : (tensor<?x6xf16>, tensor<?x6xf16>, tensor<?x2xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#2, %1#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @unpooled(
// CHECK-NEXT: "oneflow.max_unpool_1d"(%{{.*}}, %{{.*}}) {kernel_size = array<i64: 2>, output_size = array<i64>, padding = array<i64: 0>, stride = array<i64: 2>} : (tensor<2x3x4xf32>, tensor<2x3x4xi64>) -> tensor<2x3x8xf32>
// CHECK-NEXT: "oneflow.max_unpool_1d_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3x4xf32>, tensor<2x3x4xi64>, tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT: "oneflow.max_unpool_2d"(%{{.*}}, %{{.*}}) {kernel_size = array<i64: 2, 2>, output_size = array<i64>, padding = array<i64: 0, 0>, stride = array<i64: 2, 2>} : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>) -> tensor<2x3x8x2xf32>
// CHECK-NEXT: "oneflow.max_unpool_2d_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>, tensor<2x3x8x2xf32>) -> tensor<2x3x4x1xf32>
// CHECK-NEXT: "oneflow.max_unpool_3d"(%{{.*}}, %{{.*}}) {kernel_size = array<i64: 2, 2, 2>, output_size = array<i64>, padding = array<i64: 0, 0, 0>, stride = array<i64: 2, 2, 2>} : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>) -> tensor<2x3x8x2x2xf32>
// CHECK-NEXT: "oneflow.max_unpool_3d_grad"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>, tensor<2x3x8x2x2xf32>) -> tensor<2x3x4x1x1xf32>
func.func @unpooled(%x: tensor<2x3x4xf32>, %i: tensor<2x3x4xi64>, %y: tensor<2x3x4x1xf32>, %j: tensor<2x3x4x1xi64>, %z: tensor<2x3x4x1x1xf32>, %k: tensor<2x3x4x1x1xi64>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.max_unpool_1d"(%x, %i) {kernel_size = [2], stride = [2], padding = [0], output_size = []} : (tensor<2x3x4xf32>, tensor<2x3x4xi64>) -> tensor<*xf32>
  %1 = "oneflow.max_unpool_1d_grad"(%x, %i, %0) : (tensor<2x3x4xf32>, tensor<2x3x4xi64>, tensor<*xf32>) -> tensor<*xf32>
  %2 = "oneflow.max_unpool_2d"(%y, %j) {kernel_size = [2, 2], stride = [2, 2], padding = [0, 0], output_size = []} : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>) -> tensor<*xf32>
  %3 = "oneflow.max_unpool_2d_grad"(%y, %j, %2) : (tensor<2x3x4x1xf32>, tensor<2x3x4x1xi64>, tensor<*xf32>) -> tensor<*xf32>
  %4 = "oneflow.max_unpool_3d"(%z, %k) {kernel_size = [2, 2, 2], stride = [2, 2, 2], padding = [0, 0, 0], output_size = []} : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>) -> tensor<*xf32>
  %5 = "oneflow.max_unpool_3d_grad"(%z, %k, %4) : (tensor<2x3x4x1x1xf32>, tensor<2x3x4x1x1xi64>, tensor<*xf32>) -> tensor<*xf32>
  return %1, %3, %5 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @products(
// CHECK-NEXT: "oneflow.matrix_vector_product"(%{{.*}}, %{{.*}}) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3xf32>
// CHECK-NEXT: "oneflow.matrix_vector_product_grad_a"(%{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<4xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: "oneflow.matrix_vector_product_grad_b"(%{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
// CHECK-NEXT: "oneflow.vector_matrix_product"(%{{.*}}, %{{.*}}) : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
// CHECK-NEXT: "oneflow.vector_matrix_product_grad_a"(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<3xf32>
// CHECK-NEXT: "oneflow.vector_matrix_product_grad_b"(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
func.func @products(%a: tensor<3x4xf32>, %m: tensor<3xf32>, %k: tensor<4xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  %0 = "oneflow.matrix_vector_product"(%a, %k) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<*xf32>
  %1 = "oneflow.matrix_vector_product_grad_a"(%m, %k) : (tensor<3xf32>, tensor<4xf32>) -> tensor<*xf32>
  %2 = "oneflow.matrix_vector_product_grad_b"(%m, %a) : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  %3 = "oneflow.vector_matrix_product"(%m, %a) : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  %4 = "oneflow.vector_matrix_product_grad_a"(%k, %a) : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  %5 = "oneflow.vector_matrix_product_grad_b"(%k, %m) : (tensor<4xf32>, tensor<3xf32>) -> tensor<*xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @gradients_of_cells(
// CHECK-NEXT: "oneflow.fused_lstm_cell_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x2xf32>, tensor<8xf32>)
// CHECK-NEXT: "oneflow.fused_gru_cell_grad"(%{{.*}}, %{{.*}}) : (tensor<?x2xf32>, tensor<?x10xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x2xf32>, tensor<6xf32>, tensor<6xf32>)
func.func @gradients_of_cells(%a: tensor<?x2xf32>, %b: tensor<?x8xf32>, %c: tensor<?x10xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.fused_lstm_cell_grad"(%a, %a, %a, %a, %b) : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:5 = "oneflow.fused_gru_cell_grad"(%a, %c) : (tensor<?x2xf32>, tensor<?x10xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}
