// RUN: oneflow-opt %s --stage kernels --split-input-file | FileCheck %s
// RUN: oneflow-opt %s --stage llvm --target x86-64-v4-vnni --split-input-file | FileCheck %s --check-prefixes=PRODUCTS,VNNI
// RUN: oneflow-opt %s --stage llvm --target x86-64-v4 --split-input-file | FileCheck %s --check-prefixes=PRODUCTS,V4
// RUN: oneflow-opt %s --stage llvm --target x86-64-v3 --split-input-file | FileCheck %s --check-prefixes=PRODUCTS,V3
// RUN: oneflow-opt %s --stage llvm --target x86-64-v2 --split-input-file | FileCheck %s --check-prefixes=PRODUCTS,V2
// RUN: oneflow-opt %s --stage llvm --target aarch64-neon --split-input-file | FileCheck %s --check-prefixes=PRODUCTS,NEON

// A product converts weights from integers as it loads them.

// CHECK-LABEL: func.func private @dequantized_kernel_0(
// CHECK-SAME: tensor<64x96xi8>
// CHECK: arith.sitofp {{.*}} : i8 to f32
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-LABEL: func.func @dequantized(
// CHECK-COUNT-1: call @
// CHECK-NOT: call @
func.func @dequantized(%x: tensor<9x64xf32>, %w: tensor<64x96xi8>, %s: tensor<1x96xf32>) -> tensor<9x96xf32> {
  %0 = "oneflow.cast"(%w) {dtype = f32} : (tensor<64x96xi8>) -> tensor<64x96xf32>
  %1 = "oneflow.broadcast_mul"(%0, %s) : (tensor<64x96xf32>, tensor<1x96xf32>) -> tensor<64x96xf32>
  %2 = "oneflow.matmul"(%x, %1) : (tensor<9x64xf32>, tensor<64x96xf32>) -> tensor<9x96xf32>
  return %2 : tensor<9x96xf32>
}

// -----

// The left operand of a product of floats is computed before: the micro-kernel would convert its elements one by one
// for each block of columns.

// CHECK-LABEL: func.func private @left_kernel_0(
// CHECK-SAME: oneflow.kernel = "pointwise"
// CHECK: arith.sitofp
// CHECK-LABEL: func.func private @left_kernel_1(
// CHECK-SAME: tensor<9x64xf32>, {{.*}}"contraction"
// CHECK-NOT: arith.sitofp
// CHECK: return
func.func @left(%x: tensor<9x64xi8>, %w: tensor<64x96xf32>) -> tensor<9x96xf32> {
  %0 = "oneflow.cast"(%x) {dtype = f32} : (tensor<9x64xi8>) -> tensor<9x64xf32>
  %1 = "oneflow.matmul"(%0, %w) : (tensor<9x64xf32>, tensor<64x96xf32>) -> tensor<9x96xf32>
  return %1 : tensor<9x96xf32>
}

// -----

// A weight that is computed from floats has no fewer bytes before, and is computed once.

// CHECK-LABEL: func.func private @scaled_kernel_1(
// CHECK-SAME: tensor<9x64xf32>, %{{.*}}: tensor<64x96xf32>, %{{.*}}: tensor<9x96xf32>)
// CHECK-SAME: oneflow.kernel = "contraction"
func.func @scaled(%x: tensor<9x64xf32>, %w: tensor<64x96xf32>, %s: tensor<1x96xf32>) -> tensor<9x96xf32> {
  %0 = "oneflow.broadcast_mul"(%w, %s) : (tensor<64x96xf32>, tensor<1x96xf32>) -> tensor<64x96xf32>
  %1 = "oneflow.matmul"(%x, %0) : (tensor<9x64xf32>, tensor<64x96xf32>) -> tensor<9x96xf32>
  return %1 : tensor<9x96xf32>
}

// -----

// Two products of short integers share an operand, which both convert. Targets have different instructions.

// CHECK-LABEL: func.func private @integers_kernel_0(
// CHECK-SAME: tensor<9x64xi8>, %{{.*}}: tensor<i8>, %{{.*}}: tensor<64x96xi8>
// CHECK: linalg.generic
// CHECK-DAG: arith.extui
// CHECK-DAG: arith.extsi
// CHECK: arith.muli
// CHECK-LABEL: func.func @integers(
// CHECK-COUNT-2: call @
// CHECK-NOT: call @
// PRODUCTS-LABEL: @integers_kernel_0(
// VNNI: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// V4: llvm.call_intrinsic "llvm.x86.avx512.pmaddw.d.512"
// V3: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// V2: llvm.call_intrinsic "llvm.x86.sse2.pmadd.wd"
// NEON-NOT: llvm.call_intrinsic
// PRODUCTS: llvm.return
func.func @integers(%x: tensor<9x64xui8>, %z: tensor<ui8>, %w: tensor<64x96xi8>, %v: tensor<64x96xi8>)
    -> (tensor<9x96xi32>, tensor<9x96xi32>) {
  %0 = "oneflow.cast"(%x) {dtype = i32} : (tensor<9x64xui8>) -> tensor<9x64xi32>
  %1 = "oneflow.cast"(%z) {dtype = i32} : (tensor<ui8>) -> tensor<i32>
  %2 = "oneflow.broadcast_sub"(%0, %1) : (tensor<9x64xi32>, tensor<i32>) -> tensor<9x64xi32>
  %3 = "oneflow.cast"(%w) {dtype = i32} : (tensor<64x96xi8>) -> tensor<64x96xi32>
  %4 = "oneflow.cast"(%v) {dtype = i32} : (tensor<64x96xi8>) -> tensor<64x96xi32>
  %5 = "oneflow.matmul"(%2, %3) : (tensor<9x64xi32>, tensor<64x96xi32>) -> tensor<9x96xi32>
  %6 = "oneflow.matmul"(%2, %4) : (tensor<9x64xi32>, tensor<64x96xi32>) -> tensor<9x96xi32>
  return %5, %6 : tensor<9x96xi32>, tensor<9x96xi32>
}
