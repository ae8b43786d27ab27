// RUN: oneflow-opt %s --oneflow-join-products | FileCheck %s
// RUN: oneflow-opt %s --oneflow-join-products="terms=1" | FileCheck %s --check-prefix=APART

#left = affine_map<(m, n, k) -> (m, k)>
#right = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
#same = affine_map<(m, n) -> (m, n)>

// The later product accumulates onto the earlier product, and is rounded in place of the sum.
// CHECK-LABEL: func.func @two
// CHECK: %[[ZEROS:.*]] = linalg.fill
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : {{.*}}) outs(%[[ZEROS]] :
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%arg2, %arg3 : {{.*}}) outs(%[[P]] :
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[S]] :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: linalg.yield
// CHECK-NEXT: } -> tensor<48x40xbf16>
// CHECK-NEXT: return %[[R]]

// A kernel of one product: each product is rounded before the sum.
// APART-LABEL: func.func @two
// APART: linalg.generic {{.*}} ins(%arg0, %arg1 :
// APART: arith.truncf
// APART: linalg.generic {{.*}} ins(%arg2, %arg3 :
// APART: arith.truncf
// APART: arith.addf
func.func @two(%a: tensor<48x64xbf16>, %b: tensor<64x40xbf16>, %c: tensor<48x64xbf16>, %d: tensor<64x40xbf16>) -> tensor<48x40xbf16> {
  %zero = arith.constant 0.0 : f32
  %wide = tensor.empty() : tensor<48x40xf32>
  %empty = tensor.empty() : tensor<48x40xbf16>
  %zeros = linalg.fill ins(%zero : f32) outs(%wide : tensor<48x40xf32>) -> tensor<48x40xf32>
  %p = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<48x64xbf16>, tensor<64x40xbf16>) outs(%zeros : tensor<48x40xf32>) {
  ^bb0(%x: bf16, %y: bf16, %o: f32):
    %u = arith.extf %x : bf16 to f32
    %v = arith.extf %y : bf16 to f32
    %w = arith.mulf %u, %v : f32
    %r = arith.addf %o, %w : f32
    linalg.yield %r : f32
  } -> tensor<48x40xf32>
  %p16 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<48x40xf32>) outs(%empty : tensor<48x40xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %r = arith.truncf %x : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<48x40xbf16>
  %q = linalg.generic {indexing_maps = [#left, #right, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%c, %d : tensor<48x64xbf16>, tensor<64x40xbf16>) outs(%zeros : tensor<48x40xf32>) {
  ^bb0(%x: bf16, %y: bf16, %o: f32):
    %u = arith.extf %x : bf16 to f32
    %v = arith.extf %y : bf16 to f32
    %w = arith.mulf %u, %v : f32
    %r = arith.addf %o, %w : f32
    linalg.yield %r : f32
  } -> tensor<48x40xf32>
  %q16 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<48x40xf32>) outs(%empty : tensor<48x40xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %r = arith.truncf %x : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<48x40xbf16>
  %s = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]} ins(%q16, %p16 : tensor<48x40xbf16>, tensor<48x40xbf16>) outs(%empty : tensor<48x40xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %u = arith.extf %x : bf16 to f32
    %v = arith.extf %y : bf16 to f32
    %w = arith.addf %u, %v : f32
    %r = arith.truncf %w : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<48x40xbf16>
  return %s : tensor<48x40xbf16>
}
