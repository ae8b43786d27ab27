// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-autodiff="func=spectrum" | FileCheck %s --check-prefix=GRAD

// CHECK-LABEL: func.func @transforms
// CHECK: "oneflow.fft_c2c"(%{{.*}}) {{.*}} : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
// CHECK: "oneflow.fft_c2r"(%{{.*}}) {{.*}} : (tensor<3x8xcomplex<f32>>) -> tensor<3x15xf32>
// CHECK: "oneflow.fft_r2c"(%{{.*}}) {{.*}} : (tensor<3x15xf32>) -> tensor<3x8xcomplex<f32>>
// CHECK: "oneflow.stft"(%{{.*}}) {{.*}} : (tensor<2x5x6xf32>) -> tensor<2x4x5x2xf32>
func.func @transforms(%z: tensor<3x8xcomplex<f32>>, %frames: tensor<2x5x6xf32>) -> (tensor<*xcomplex<f32>>, tensor<*xf32>) {
  %0 = "oneflow.fft_c2c"(%z) {dims = [0 : si64], forward = true, norm_mode = 0 : si32, norm_fct = 1.0 : f64} : (tensor<3x8xcomplex<f32>>) -> tensor<*xcomplex<f32>>
  %1 = "oneflow.fft_c2r"(%0) {dims = [-1 : si64], norm_mode = 0 : si32, norm_fct = 1.0 : f64, last_dim_size = 15 : si64} : (tensor<*xcomplex<f32>>) -> tensor<*xf32>
  %2 = "oneflow.fft_r2c"(%1) {dims = [1 : si64], norm_mode = 0 : si32, norm_fct = 1.0 : f64, onesided = true} : (tensor<*xf32>) -> tensor<*xcomplex<f32>>
  %3 = "oneflow.stft"(%frames) {onesided = true} : (tensor<2x5x6xf32>) -> tensor<*xf32>
  return %2, %3 : tensor<*xcomplex<f32>>, tensor<*xf32>
}

// CHECK-LABEL: func.func @pairs
// CHECK: "oneflow.fourier_of_pairs"(%{{.*}}) {{.*}} : (tensor<?x6xf32>) -> tensor<?x4x2xf32>
func.func @pairs(%x: tensor<?x6xf32>) -> tensor<*xf32> {
  %0 = "oneflow.fourier_of_pairs"(%x) {dims = [1 : si64], form = "r2c", forward = true, factor = 1.0 : f64} : (tensor<?x6xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// The gradient of a transform is the transform with the conjugate factors; the gradient of a product has a conjugate.
// GRAD-LABEL: func.func @spectrum_grad
// GRAD-SAME: (%[[Z:.*]]: tensor<4xcomplex<f32>>, %[[DY:.*]]: tensor<4xcomplex<f32>>)
// GRAD: %[[BACK:.*]] = "oneflow.fft_c2c"(%[[DY]]) {dims = array<i64: 0>, forward = false
// GRAD: %[[CONJ:.*]] = "oneflow.conj_physical"(%[[Z]])
// GRAD: "oneflow.broadcast_mul"(%[[BACK]], %[[CONJ]])
func.func @spectrum(%z: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "oneflow.broadcast_mul"(%z, %z) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %1 = "oneflow.fft_c2c"(%0) {dims = [0 : si64], forward = true, norm_mode = 0 : si32, norm_fct = 1.0 : f64} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %1 : tensor<4xcomplex<f32>>
}
