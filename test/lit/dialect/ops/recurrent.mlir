// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @cells(
// CHECK-NEXT: "oneflow.fused_lstm_cell"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<?x8xf16>, tensor<?x8xf16>, tensor<?x2xf16>) -> (tensor<?x2xf16>, tensor<?x2xf16>, tensor<?x8xf16>)
// CHECK-NEXT: "oneflow.fused_gru_cell"(%{{.*}}, %{{.*}}, %{{.*}}) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<?x6xf16>, tensor<?x6xf16>, tensor<?x2xf16>) -> (tensor<?x2xf16>, tensor<?x10xf16>)
func.func @cells(%a: tensor<?x8xf16>, %s: tensor<?x2xf16>, %g: tensor<?x6xf16>) -> (tensor<*xf16>, tensor<*xf16>) {
  %0:3 = "oneflow.fused_lstm_cell"(%a, %a, %s) : (tensor<?x8xf16>, tensor<?x8xf16>, tensor<?x2xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>)
  %1:2 = "oneflow.fused_gru_cell"(%g, %g, %s) : (tensor<?x6xf16>, tensor<?x6xf16>, tensor<?x2xf16>) -> (tensor<*xf16>, tensor<*xf16>)
  return %0#2, %1#1 : tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @gradients_of_cells(
// CHECK-NEXT: "oneflow.fused_lstm_cell_grad"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x2xf32>, tensor<8xf32>)
// CHECK-NEXT: "oneflow.fused_gru_cell_grad"(%{{.*}}, %{{.*}}) : (tensor<?x2xf32>, tensor<?x10xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x2xf32>, tensor<6xf32>, tensor<6xf32>)
func.func @gradients_of_cells(%a: tensor<?x2xf32>, %b: tensor<?x8xf32>, %c: tensor<?x10xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %0:3 = "oneflow.fused_lstm_cell_grad"(%a, %a, %a, %a, %b) : (tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x8xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  %1:5 = "oneflow.fused_gru_cell_grad"(%a, %c) : (tensor<?x2xf32>, tensor<?x10xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
  return %0#0, %1#0 : tensor<*xf32>, tensor<*xf32>
}
