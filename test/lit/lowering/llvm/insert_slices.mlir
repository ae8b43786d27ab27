// RUN: oneflow-opt %s --convert-oneflow-to-linalg --oneflow-form-kernels --oneflow-emit-kernels | FileCheck %s

// The destination is filled in chunks; then the part is inserted row by row.
// CHECK-LABEL: func.func private @padded_kernel_0_0(
// CHECK: vector.broadcast
// CHECK: vector.store
// CHECK-LABEL: func.func private @padded_kernel_0_1(
// CHECK: vector.load {{.*}} : memref<1200000xf32>, vector<64xf32>
// CHECK: vector.store {{.*}} : memref<1208000xf32>, vector<64xf32>
// CHECK: vector.maskedstore
// CHECK-LABEL: func.func private @padded_kernel_0_launch(
// CHECK: call @padded_kernel_0_0_launch
// CHECK: call @padded_kernel_0_1_launch
func.func @padded(%x: tensor<4000x300xf32>) -> tensor<4000x302xf32> {
  %0 = "oneflow.pad"(%x) {padding_before = [0, 1], padding_after = [0, 1]} : (tensor<4000x300xf32>) -> tensor<4000x302xf32>
  return %0 : tensor<4000x302xf32>
}

// Parts of equal sizes share a function, which takes the first element of the part in the destination. The runtime
// copies long runs.
// CHECK-LABEL: func.func private @joined_kernel_0_0(
// CHECK-SAME: llvm.no_inline
// CHECK: %[[BYTES:.*]] = arith.constant 4000 : index
// CHECK: call @oneflow_rt_copy(%{{.*}}, %{{.*}}, %[[BYTES]])
// CHECK-NOT: @joined_kernel_0_1
// CHECK-LABEL: func.func private @joined_kernel_0_launch(
// CHECK-SAME: %[[X:.*]]: memref<1xi8>, %[[Y:.*]]: memref<1xi8>, %[[OUT:.*]]: memref<1xi8>)
// CHECK-DAG: %[[AT0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[AT1:.*]] = arith.constant 1000 : index
// CHECK-DAG: %[[AT2:.*]] = arith.constant 2000 : index
// CHECK: call @joined_kernel_0_0_launch(%[[X]], %[[OUT]], %[[AT0]])
// CHECK: call @joined_kernel_0_0_launch(%[[Y]], %[[OUT]], %[[AT1]])
// CHECK: call @joined_kernel_0_0_launch(%[[X]], %[[OUT]], %[[AT2]])
func.func @joined(%x: tensor<4x1000xf32>, %y: tensor<4x1000xf32>) -> tensor<4x3000xf32> {
  %0 = "oneflow.cat"(%x, %y, %x) {axis = 1 : si64, max_dim_size = 3000 : si64}
      : (tensor<4x1000xf32>, tensor<4x1000xf32>, tensor<4x1000xf32>) -> tensor<4x3000xf32>
  return %0 : tensor<4x3000xf32>
}

// Dynamic sizes are arguments of the shared function.
// CHECK-LABEL: func.func private @dynamic_kernel_0_0_launch(
// CHECK-SAME: memref<1xi8>, %{{.*}}: memref<1xi8>, %{{.*}}: index, %{{.*}}: index
// CHECK-NOT: func.func private @dynamic_kernel_0_1
// CHECK: func.func private @dynamic_kernel_0_launch(
// CHECK-COUNT-2: call @dynamic_kernel_0_0_launch(
func.func @dynamic(%x: tensor<?x30xf32>, %y: tensor<?x30xf32>) -> tensor<?x60xf32> {
  %0 = "oneflow.cat"(%x, %y) {axis = 1 : si64, max_dim_size = 60 : si64}
      : (tensor<?x30xf32>, tensor<?x30xf32>) -> tensor<?x60xf32>
  return %0 : tensor<?x60xf32>
}
