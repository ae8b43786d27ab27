// RUN: oneflow-opt %s --oneflow-to-triton --dump-kernels %t -o %t.mlir
// RUN: FileCheck %s --input-file %t/main_kernel_0.py
// RUN: FileCheck %s --check-prefix=PTX --input-file %t/main_kernel_0.ptx

// TMA descriptors load and store blocks, persistent programs compute several tiles, and the epilogue has two slices.
// CHECK: # oneflow.matmul
// CHECK-DAG: [[A:block[0-9]+]] = tl.make_tensor_descriptor(p0, [4096, 4096], [4096, 1], [128, 64])
// CHECK-DAG: [[B:block[0-9]+]] = tl.make_tensor_descriptor(p1, [4096, 4096], [4096, 1], [256, 64])
// CHECK-DAG: [[C:block[0-9]+]] = tl.make_tensor_descriptor(p2, [4096, 4096], [4096, 1], [128, 128])
// CHECK: for tile in tl.range(tl.program_id(0), 512, 132, flatten=True):
// CHECK: [[L:v[0-9]+]] = [[A]].load([row * 128, k_at])
// CHECK: [[R:v[0-9]+]] = [[B]].load([column * 256, k_at]).T
// CHECK: acc = tl.dot([[L]], [[R]], acc
// CHECK: tl.split(acc
// CHECK: [[C]].store([row * 128, column * 256 + 0],
// CHECK: [[C]].store([row * 128, column * 256 + 128],

// PTX: wgmma.mma_async
func.func @main(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
  %0 = "oneflow.matmul"(%a, %b) {transpose_b = true} : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %0 : tensor<4096x4096xbf16>
}
