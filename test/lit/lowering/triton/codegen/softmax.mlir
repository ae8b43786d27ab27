// RUN: oneflow-opt %s --oneflow-to-triton | FileCheck %s
// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t --gpu-arch sm_90 -o %t.mlir
// RUN: FileCheck %s --check-prefix=SOURCE --input-file %t/main_kernel_0.py
// RUN: FileCheck %s --check-prefix=PLAN --input-file %t/main.plan.py
// RUN: FileCheck %s --check-prefix=PTX --input-file %t/main_kernel_0.ptx

// CHECK: module attributes
// CHECK-SAME: oneflow.results = ["tensor<8x16xf32>"]
// CHECK-SAME: oneflow.workspace = 0
// CHECK: func.func private @main_kernel_0(tensor<8x16xf32>, tensor<16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
// CHECK-SAME: oneflow.kernel = "row"
// CHECK-SAME: oneflow.triton = {
// CHECK-SAME: grid = 1 : i64
// CHECK: func.func @main
// CHECK-SAME: oneflow.plan =
// CHECK: call @main_kernel_0
// CHECK-SAME: oneflow.at = ["result 0"]

// SOURCE: # oneflow.broadcast_add ({{.*}})
// SOURCE: @triton.jit
// SOURCE: def main_kernel_0(p0, p1, p2):
// SOURCE: tl.reduce({{.*}}, 1, nan_maximum, keep_dims=True)
// SOURCE: tl.reduce({{.*}}, 1, add, keep_dims=True)
// SOURCE: tl.store(p2

// PLAN: def main(run, in0, in1):
// PLAN-NEXT: b2 = run.result(0, 512, (8, 16,))
// PLAN-NEXT: run.launch("main_kernel_0", in0, in1, b2{{.*}})

// PTX: .target sm_90a
// PTX: .visible .entry main_kernel_0
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16xf32>) -> tensor<8x16xf32> {
  %0 = "oneflow.broadcast_add"(%a, %b) : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %1 = "oneflow.softmax"(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
