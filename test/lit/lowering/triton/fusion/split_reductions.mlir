// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-split-reductions | FileCheck %s
// RUN: oneflow-opt %s --stage gpu-kernels | FileCheck %s --check-prefix=KERNELS

// The rows are cut in parts; the partial sums are added afterwards.
// CHECK-LABEL: func.func @main
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %arg0 {{\[\[}}0, 1], [2]] output_shape [1024, 64, 64]
// CHECK: %[[PARTIAL:.*]] = linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%[[PARTS]]
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["reduction", "parallel"]
// CHECK-SAME: ins(%[[PARTIAL]] : tensor<1024x64xf32>)

// KERNELS-DAG: func.func private @main_kernel_0({{.*}}tensor<1024x64x64xf32>
// KERNELS-DAG: func.func private @main_kernel_1({{.*}}tensor<1024x64xf32>
func.func @main(%x: tensor<65536x64xf32>) -> tensor<64xf32> {
  %0 = "oneflow.reduce_sum"(%x) {axis = [0 : si32], keepdims = false} : (tensor<65536x64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// Loops over adjacent memory are collapsed first, since the collapsed loop is split into more parts than each loop.
// CHECK-LABEL: func.func @images
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1, 2], [3]] : tensor<128x56x56x64xbf16> into tensor<401408x64xbf16>
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %[[FLAT]] {{\[\[}}0, 1], [2]] output_shape [1024, 392, 64]
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[PARTS]] :
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[PARTS]] :
func.func @images(%x: tensor<128x56x56x64xbf16>, %g: tensor<64xf32>, %b: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0, %m, %i = "oneflow.normalization"(%x, %g, %b) {axis = 3 : si32, epsilon = 1.0e-5 : f32, training = true, operandSegmentSizes = array<i32: 1, 0, 0, 1, 1, 0>} : (tensor<128x56x56x64xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<128x56x56x64xbf16>, tensor<64xf32>, tensor<64xf32>)
  return %m, %i : tensor<64xf32>, tensor<64xf32>
}
