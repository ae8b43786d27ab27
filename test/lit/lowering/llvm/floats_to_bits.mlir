// RUN: oneflow-opt %s --oneflow-floats-to-bits | FileCheck %s

// CHECK-LABEL: llvm.func @moved(%arg0: !llvm.ptr, %arg1: i16) -> i16
// CHECK: llvm.load %arg0 {{.*}} -> vector<4xi16>
// CHECK: llvm.shufflevector {{.*}} : vector<4xi16>
// CHECK: llvm.store {{.*}} : vector<4xi16>
// CHECK: llvm.return %arg1 : i16
llvm.func @moved(%p: !llvm.ptr, %x: bf16) -> bf16 {
  %0 = llvm.load %p {alignment = 2 : i64} : !llvm.ptr -> vector<4xbf16>
  %1 = llvm.shufflevector %0, %0 [3, 2, 1, 0] : vector<4xbf16>
  llvm.store %1, %p {alignment = 2 : i64} : vector<4xbf16>, !llvm.ptr
  llvm.return %x : bf16
}

// CHECK-LABEL: llvm.func @converted
// CHECK: %[[BITS:.*]] = llvm.load {{.*}} -> i16
// CHECK: %[[HALF:.*]] = llvm.bitcast %[[BITS]] : i16 to f16
// CHECK: %[[WIDE:.*]] = llvm.fpext %[[HALF]] : f16 to f32
// CHECK: %[[NARROW:.*]] = llvm.fptrunc %[[WIDE]] : f32 to f16
// CHECK: %[[AGAIN:.*]] = llvm.bitcast %[[NARROW]] : f16 to i16
// CHECK: llvm.store %[[AGAIN]], {{.*}} : i16
// CHECK: %[[ONE:.*]] = llvm.mlir.constant(1.000000e+00 : bf16) : bf16
// CHECK: llvm.bitcast %[[ONE]] : bf16 to i16
llvm.func @converted(%p: !llvm.ptr) -> bf16 {
  %0 = llvm.load %p : !llvm.ptr -> f16
  %1 = llvm.fpext %0 : f16 to f32
  %2 = llvm.fptrunc %1 : f32 to f16
  llvm.store %2, %p : f16, !llvm.ptr
  %3 = llvm.mlir.constant(1.0 : bf16) : bf16
  llvm.return %3 : bf16
}

// A conversion of integers gives floats; the following operations use the bits of the floats.
// CHECK-LABEL: llvm.func @from_integers(
// CHECK: %[[F:.*]] = llvm.uitofp %{{.*}} : vector<4xi8> to vector<4xf16>
// CHECK: %[[B:.*]] = llvm.bitcast %[[F]] : vector<4xf16> to vector<4xi16>
// CHECK: llvm.store %[[B]], %{{.*}} : vector<4xi16>, !llvm.ptr
llvm.func @from_integers(%p: !llvm.ptr, %q: !llvm.ptr) {
  %x = llvm.load %p : !llvm.ptr -> vector<4xi8>
  %y = llvm.uitofp %x : vector<4xi8> to vector<4xf16>
  llvm.store %y, %q : vector<4xf16>, !llvm.ptr
  llvm.return
}
