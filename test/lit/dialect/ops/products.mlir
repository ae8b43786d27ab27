// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

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
