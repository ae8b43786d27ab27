// RUN: oneflow-opt %s --oneflow-transpose-operands | FileCheck %s
// RUN: oneflow-opt %s --oneflow-transpose-operands --canonicalize --oneflow-split-reductions | FileCheck %s --check-prefix=KEPT

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#along = affine_map<(m, n, k) -> (n, k)>
#out = affine_map<(m, n, k) -> (m, n)>

module attributes {oneflow.precision = "tf32"} {

// The right operand is copied; the barrier prevents the fusion of the copy with the product.
// CHECK-DAG: #[[ALONG:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-LABEL: func.func @strided
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<4096x2048xf32>) outs({{.*}} : tensor<2048x4096xf32>)
// CHECK: %[[B:.*]] = builtin.unrealized_conversion_cast %[[T]], %arg1
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[ALONG]], {{.*}}ins(%arg0, %[[B]] :
// KEPT-LABEL: func.func @strided
// KEPT-COUNT-2: linalg.generic
func.func @strided(%a: tensor<2048x4096xf32>, %b: tensor<4096x2048xf32>) -> tensor<2048x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048x2048xf32>
  %c = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %y = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<2048x4096xf32>, tensor<4096x2048xf32>) outs(%c : tensor<2048x2048xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %0 = arith.mulf %p, %q : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2048x2048xf32>
  return %y : tensor<2048x2048xf32>
}

// Both operands are along the depth already.
// CHECK-LABEL: func.func @along
// CHECK-NOT: unrealized_conversion_cast
// CHECK: return
func.func @along(%a: tensor<2048x4096xf32>, %b: tensor<2048x4096xf32>) -> tensor<2048x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2048x2048xf32>
  %c = linalg.fill ins(%zero : f32) outs(%e : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %y = linalg.generic {indexing_maps = [#left, #along, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<2048x4096xf32>, tensor<2048x4096xf32>) outs(%c : tensor<2048x2048xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32):
    %0 = arith.mulf %p, %q : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2048x2048xf32>
  return %y : tensor<2048x2048xf32>
}

}
