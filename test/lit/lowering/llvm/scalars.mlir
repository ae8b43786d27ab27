// RUN: oneflow-opt %s --convert-oneflow-to-linalg --canonicalize --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// Without lanes, a parallel step runs along the last loop; the other positions are computed once before that loop.

// CHECK-LABEL: func.func private @resized_kernel_0(
// CHECK: scf.for %[[STEP:.*]] = %{{.*}} to %{{.*}} step
// CHECK-NEXT: %[[ROW:.*]] = arith.remui %[[STEP]], %c8
// CHECK-NEXT: %[[REST:.*]] = arith.divui %[[STEP]], %c8
// CHECK-NEXT: %[[CHANNEL:.*]] = arith.remui %[[REST]], %c3
// CHECK-NEXT: %[[IMAGE:.*]] = arith.divui %[[REST]], %c3
// CHECK-NEXT: scf.for %[[AT:.*]] = %c0 to %c10 step %c1 {
// CHECK-NOT: arith.remui
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[IMAGE]], %[[CHANNEL]], %[[ROW]], %[[AT]]]
func.func @resized(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x8x10xf32> {
  %0 = "oneflow.upsample_bilinear_2d"(%x) {
    data_format = "channels_first", output_size = [], height_scale = 2.0 : f64, width_scale = 2.0 : f64
  } : (tensor<2x3x4x5xf32>) -> tensor<2x3x8x10xf32>
  return %0 : tensor<2x3x8x10xf32>
}

// Long loops are split into chunks for several threads.
// CHECK-LABEL: func.func private @long_kernel_0(
// CHECK: scf.for %[[STEP:.*]] = %{{.*}} to %{{.*}} step
// CHECK-NEXT: %[[CHUNK:.*]] = arith.remui %[[STEP]], %c3
// CHECK: %[[BEGIN:.*]] = arith.muli %[[CHUNK]], %c1024
// CHECK: %[[STOP:.*]] = arith.addi %[[BEGIN]], %c1024
// CHECK: %[[END:.*]] = arith.minui %[[STOP]], %c2500
// CHECK: scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step
func.func @long(%x: tensor<2x3x1250xf32>) -> tensor<2x3x2500xf32> {
  %0 = "oneflow.upsample_linear_1d"(%x) {data_format = "channels_first", output_size = [], scale_factor = 2.0 : f64}
    : (tensor<2x3x1250xf32>) -> tensor<2x3x2500xf32>
  return %0 : tensor<2x3x2500xf32>
}
