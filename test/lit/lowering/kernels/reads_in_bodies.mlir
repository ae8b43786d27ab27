// RUN: oneflow-opt %s --oneflow-form-kernels | FileCheck %s

// The second operation reads any element of the first: all elements have to be there before, so that the operations
// are two kernels, although their loops have the same sizes.
// CHECK-LABEL: func.func private @main_kernel_0(
// CHECK: arith.negf
// CHECK-NOT: tensor.extract
// CHECK-LABEL: func.func private @main_kernel_1(
// CHECK: tensor.extract
#map = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<64xf32>, %p: tensor<64xi64>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%p, %0 : tensor<64xi64>, tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%in: i64, %own: f32, %out: f32):
    %i = arith.index_cast %in : i64 to index
    %v = tensor.extract %0[%i] : tensor<64xf32>
    %s = arith.addf %v, %own : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %1 : tensor<64xf32>
}
