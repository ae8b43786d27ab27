// RUN: oneflow-opt %s --oneflow-form-kernels | FileCheck %s --check-prefixes=CHECK,FUSED
// RUN: oneflow-opt %s --oneflow-form-kernels="fuse=true" | FileCheck %s --check-prefixes=CHECK,FUSED
// RUN: oneflow-opt %s --oneflow-form-kernels="fuse=false" | FileCheck %s --check-prefixes=CHECK,APART

// With fusion the body of the first operation is inlined into the second operation; without fusion the operations
// keep separate bodies and still share one kernel, since the loops are equal.

// CHECK-LABEL: func.func private @main_kernel_0(
// CHECK-SAME: oneflow.kernel = "pointwise"
// CHECK: linalg.generic
// CHECK: math.exp
// FUSED-NOT: linalg.generic
// APART: linalg.generic
// CHECK: arith.negf
// CHECK-LABEL: func.func @main(
// CHECK: call @main_kernel_0
// CHECK-NOT: call
// CHECK: return
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : tensor<64xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%p: f32, %q: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<64xf32>
  return %b : tensor<64xf32>
}
