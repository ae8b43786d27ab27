// RUN: oneflow-opt %s --oneflow-expand-complex | FileCheck %s
// RUN: oneflow-opt %s --stage linalg | FileCheck %s --check-prefix=LINALG

// Both parts of the operands are read from pairs; the result is pairs again.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[X:.*]]: tensor<?x2xf32>, %[[Y:.*]]: tensor<?x2xf32>) -> tensor<?x2xf32>
// CHECK-DAG: %[[A1:.*]] = "oneflow.narrow"(%[[X]]) {dim = 1 : i64, length = 1 : i64}
// CHECK-DAG: %[[A:.*]] = "oneflow.squeeze"(%[[A1]])
// CHECK-DAG: %[[B1:.*]] = "oneflow.narrow"(%[[X]]) {dim = 1 : i64, length = 1 : i64, start = 1 : i64}
// CHECK-DAG: %[[B:.*]] = "oneflow.squeeze"(%[[B1]])
// CHECK: %[[AC:.*]] = "oneflow.broadcast_mul"(%[[A]], %[[C:.*]]) :
// CHECK: %[[BD:.*]] = "oneflow.broadcast_mul"(%[[B]], %[[D:.*]]) :
// CHECK: %[[RE:.*]] = "oneflow.broadcast_sub"(%[[AC]], %[[BD]])
// CHECK: %[[AD:.*]] = "oneflow.broadcast_mul"(%[[A]], %[[D]]) :
// CHECK: %[[BC:.*]] = "oneflow.broadcast_mul"(%[[B]], %[[C]]) :
// CHECK: %[[IM:.*]] = "oneflow.broadcast_add"(%[[AD]], %[[BC]])
// CHECK: "oneflow.stack"(%[[RE]], %[[IM]]) {axis = 1 : i64}
// CHECK-NOT: complex
// LINALG-LABEL: func.func @product
// LINALG-NOT: complex
func.func @product(%x: tensor<?xcomplex<f32>>, %y: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {
  %0 = "oneflow.broadcast_mul"(%x, %y) : (tensor<?xcomplex<f32>>, tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>>
  return %0 : tensor<?xcomplex<f32>>
}

// Between two operators no pairs are built: the next operator reads the parts of the result.
// CHECK-LABEL: func.func @chain
// CHECK-NOT: "oneflow.stack"
// CHECK: return
func.func @chain(%x: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  %0 = "oneflow.exp"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %1 = "oneflow.imag"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Operations that pass tensors on also pass pairs on: branches, loops, calls, casts, sizes.
// CHECK-LABEL: func.func @passed
// CHECK: %[[IF:.*]] = scf.if %{{.*}} -> (tensor<4x2xf32>)
// CHECK: scf.yield %{{.*}} : tensor<4x2xf32>
// CHECK: call @chain(%[[IF]]) : (tensor<4x2xf32>) -> tensor<4xf32>
// CHECK: %[[CAST:.*]] = tensor.cast %[[IF]] : tensor<4x2xf32> to tensor<?x2xf32>
// CHECK: tensor.dim %[[CAST]]
func.func @passed(%x: tensor<4xcomplex<f32>>, %c: i1) -> (tensor<4xf32>, index) {
  %0 = scf.if %c -> (tensor<4xcomplex<f32>>) {
    %3 = "oneflow.negative"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    scf.yield %3 : tensor<4xcomplex<f32>>
  } else {
    scf.yield %x : tensor<4xcomplex<f32>>
  }
  %1 = call @chain(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %2 = tensor.cast %0 : tensor<4xcomplex<f32>> to tensor<?xcomplex<f32>>
  %i = arith.constant 0 : index
  %d = tensor.dim %2, %i : tensor<?xcomplex<f32>>
  return %1, %d : tensor<4xf32>, index
}

// Complex constants, sums and movements are applied to both parts; padding values are real.
// CHECK-LABEL: func.func @parts
// CHECK: "oneflow.constant"() {dtype = f32, floating_value = 1.000000e+00 : f64
// CHECK: "oneflow.constant"() {dtype = f32, floating_value = -2.000000e+00 : f64
// CHECK: "oneflow.pad"(%{{.*}}) {floating_constant_value = 3.000000e+00 : f64
// CHECK: "oneflow.pad"(%{{.*}}) {padding_after
// CHECK: "oneflow.reduce_sum"
// CHECK: "oneflow.reduce_sum"
func.func @parts(%x: tensor<4xcomplex<f32>>) -> tensor<complex<f32>> {
  %0 = "oneflow.constant"() {is_complex_value = true, complex_value = [1.0, -2.0], dtype = 20 : i32, shape = [4 : si64]} : () -> tensor<4xcomplex<f32>>
  %1 = "oneflow.broadcast_add"(%x, %0) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %2 = "oneflow.pad"(%1) {padding_before = [0 : si64], padding_after = [2 : si64], floating_constant_value = 3.0 : f64} : (tensor<4xcomplex<f32>>) -> tensor<6xcomplex<f32>>
  %3 = "oneflow.reduce_sum"(%2) {axis = [0 : si32]} : (tensor<6xcomplex<f32>>) -> tensor<complex<f32>>
  return %3 : tensor<complex<f32>>
}

// A transform is a call of an external kernel on pairs.
// CHECK-LABEL: func.func @spectrum
// CHECK-SAME: (%[[X:.*]]: tensor<4x2xf32>)
// CHECK: "oneflow.fourier_of_pairs"({{.*}}) {dims = array<i64: 0>, factor = 1.000000e+00 : f64, form = "c2c", forward = true} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// LINALG-LABEL: func.func @spectrum
// LINALG: call @oneflow_user_kernel_
func.func @spectrum(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "oneflow.fft_c2c"(%x) {dims = [0 : si64], forward = true, norm_mode = 0 : si32, norm_fct = 1.0 : f64} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}
