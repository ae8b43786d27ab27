// RUN: oneflow-opt %s --oneflow-split-for-threads | FileCheck %s

#window = affine_map<(d0, d1) -> (d0 + d1)>
#both = affine_map<(d0, d1) -> (d0, d1)>
#first = affine_map<(d0) -> (0, d0)>
#id = affine_map<(d0) -> (d0)>

// The first of two windows is not read from the source, which has another size than a window.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<3xf32>) outs(%{{.*}} : tensor<2x2xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<2x2xf32>) outs(%{{.*}} : tensor<2xf32>)
func.func @main(%x: tensor<3xf32>) -> tensor<2xf32> {
  %e = tensor.empty() : tensor<2x2xf32>
  %w = linalg.generic {indexing_maps = [#window, #both], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3xf32>) outs(%e : tensor<2x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<2x2xf32>
  %l = tensor.empty() : tensor<2xf32>
  %y = linalg.generic {indexing_maps = [#first, #id], iterator_types = ["parallel"]} ins(%w : tensor<2x2xf32>) outs(%l : tensor<2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.negf %a : f32
    linalg.yield %m : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}
