// RUN: oneflow-opt %s --oneflow-emit-triton=autotune=true | FileCheck %s
// RUN: oneflow-opt %s --autotune --oneflow-emit-triton | FileCheck %s
// RUN: oneflow-opt %s --oneflow-emit-triton | FileCheck %s --check-prefix=ONE

// Rows have candidates with half or twice the warps; the plan is equal. Other kernels have no candidates.
// CHECK: @main_kernel_0{{.*}} attributes {oneflow.kernel = "row", oneflow.triton = {{.*}}warps = 8 : i64}, oneflow.tuning_candidates = [{{.*}}warps = 4 : i64}, {{.*}}warps = 16 : i64}]
// CHECK: @main_kernel_1
// CHECK-NOT: oneflow.tuning_candidates
// ONE-NOT: oneflow.tuning_candidates
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func private @main_kernel_0(%x: tensor<64x4000xf32>, %out: tensor<64xf32>) -> tensor<64xf32> attributes {oneflow.kernel = "row"} {
  %z = arith.constant 0.0 : f32
  %e = linalg.fill ins(%z : f32) outs(%out : tensor<64xf32>) -> tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x4000xf32>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
func.func private @main_kernel_1(%x: tensor<64x4000xf32>, %out: tensor<64x4000xf32>) -> tensor<64x4000xf32> attributes {oneflow.kernel = "pointwise"} {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x4000xf32>) outs(%out : tensor<64x4000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<64x4000xf32>
  return %0 : tensor<64x4000xf32>
}
func.func @main(%x: tensor<64x4000xf32>) -> (tensor<64xf32>, tensor<64x4000xf32>) {
  %e = tensor.empty() : tensor<64xf32>
  %0 = call @main_kernel_0(%x, %e) : (tensor<64x4000xf32>, tensor<64xf32>) -> tensor<64xf32>
  %f = tensor.empty() : tensor<64x4000xf32>
  %1 = call @main_kernel_1(%x, %f) : (tensor<64x4000xf32>, tensor<64x4000xf32>) -> tensor<64x4000xf32>
  return %0, %1 : tensor<64xf32>, tensor<64x4000xf32>
}
