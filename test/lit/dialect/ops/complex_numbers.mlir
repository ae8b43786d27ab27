// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @parts
// CHECK: "oneflow.real"(%{{.*}}) : (tensor<2x?xcomplex<f32>>) -> tensor<2x?xf32>
// CHECK: "oneflow.imag"(%{{.*}}) : (tensor<2x?xcomplex<f32>>) -> tensor<2x?xf32>
// CHECK: "oneflow.abs"(%{{.*}}) : (tensor<2x?xcomplex<f32>>) -> tensor<2x?xf32>
// CHECK: "oneflow.conj_physical"(%{{.*}}) : (tensor<2x?xcomplex<f32>>) -> tensor<2x?xcomplex<f32>>
// CHECK: "oneflow.view_as_real"(%{{.*}}) : (tensor<2x?xcomplex<f32>>) -> tensor<2x?x2xf32>
// CHECK: "oneflow.view_as_complex"(%{{.*}}) : (tensor<2x?x2xf32>) -> tensor<2x?xcomplex<f32>>
func.func @parts(%z: tensor<2x?xcomplex<f32>>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xcomplex<f32>>) {
  %0 = "oneflow.real"(%z) : (tensor<2x?xcomplex<f32>>) -> tensor<*xf32>
  %1 = "oneflow.imag"(%z) : (tensor<2x?xcomplex<f32>>) -> tensor<*xf32>
  %2 = "oneflow.abs"(%z) : (tensor<2x?xcomplex<f32>>) -> tensor<*xf32>
  %3 = "oneflow.conj_physical"(%z) : (tensor<2x?xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  %4 = "oneflow.view_as_real"(%3) : (tensor<*xcomplex<f32>>) -> tensor<*xf32>
  %5 = "oneflow.view_as_complex"(%4) : (tensor<*xf32>) -> tensor<*xcomplex<f32>>
  return %0, %1, %2, %5 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xcomplex<f32>>
}

// CHECK-LABEL: func.func @made
// CHECK: "oneflow.real_grad"(%{{.*}}) : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
// CHECK: "oneflow.imag_grad"(%{{.*}}) : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
// CHECK: "oneflow.constant"() {complex_value = array<f64: 1.000000e+00, -2.000000e+00>, dtype = complex<f64>, is_complex_value = true
func.func @made(%x: tensor<3xf64>) -> (tensor<*xcomplex<f64>>, tensor<*xcomplex<f64>>, tensor<*xcomplex<f64>>) {
  %0 = "oneflow.real_grad"(%x) : (tensor<3xf64>) -> tensor<*xcomplex<f64>>
  %1 = "oneflow.imag_grad"(%x) : (tensor<3xf64>) -> tensor<*xcomplex<f64>>
  %2 = "oneflow.constant"() {is_complex_value = true, complex_value = [1.0, -2.0], dtype = 21 : i32, shape = [2 : si64]} : () -> tensor<*xcomplex<f64>>
  return %0, %1, %2 : tensor<*xcomplex<f64>>, tensor<*xcomplex<f64>>, tensor<*xcomplex<f64>>
}
