// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t -o %t.mlir
// RUN: FileCheck %s --input-file %t/main.plan.py
// RUN: FileCheck %s --check-prefix=SOURCE --input-file %t/main_kernel_0_x3.py

// Gradients of three weights, of 36 tiles each, are one launch; the users of a gradient come after the launch.
// CHECK: def main(run, in0, in1, in2, in3):
// CHECK: run.launch("main_kernel_0_x3", in0, in3, in1, in3, in2, in3, [[G:b[0-9]+]], b{{[0-9]+}}, b{{[0-9]+}}, writes=3)
// CHECK-NOT: "main_kernel_0"
// CHECK: run.launch("main_kernel_{{[0-9]+}}", [[G]], b{{[0-9]+}}, writes=1)

// Descriptors describe parameters, so that the host makes the descriptors; each program selects by product.
// SOURCE: def main_kernel_0_one(tile, block3, block5, block8):
// SOURCE-NOT: make_tensor_descriptor
// SOURCE: def main_kernel_0_x3(p0_0, p1_0, p0_1, p1_1, p0_2, p1_2, p2_0, p2_1, p2_2):
// SOURCE-NEXT: block3_0 = tl.make_tensor_descriptor(p0_0, [8192, 768], [768, 1], [64, 128])
// SOURCE: block8_2 = tl.make_tensor_descriptor(p2_2, [768, 768], [768, 1], [128, 128])
// SOURCE-NEXT: call_index = tl.program_id(0) // 36
// SOURCE: main_kernel_0_one(tl.program_id(0) % 36, block3, block5, block8)
func.func @main(%q: tensor<8192x768xbf16>, %k: tensor<8192x768xbf16>, %v: tensor<8192x768xbf16>, %x: tensor<8192x768xbf16>)
    -> (tensor<768x768xbf16>, tensor<768x768xbf16>, tensor<768x768xbf16>) {
  %0 = "oneflow.matmul"(%q, %x) {transpose_a = true} : (tensor<8192x768xbf16>, tensor<8192x768xbf16>) -> tensor<768x768xbf16>
  %1 = "oneflow.matmul"(%0, %0) : (tensor<768x768xbf16>, tensor<768x768xbf16>) -> tensor<768x768xbf16>
  %2 = "oneflow.matmul"(%k, %x) {transpose_a = true} : (tensor<8192x768xbf16>, tensor<8192x768xbf16>) -> tensor<768x768xbf16>
  %3 = "oneflow.matmul"(%v, %x) {transpose_a = true} : (tensor<8192x768xbf16>, tensor<8192x768xbf16>) -> tensor<768x768xbf16>
  return %1, %2, %3 : tensor<768x768xbf16>, tensor<768x768xbf16>, tensor<768x768xbf16>
}
