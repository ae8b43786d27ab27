// RUN: oneflow-opt %s --stage gpu-kernels | FileCheck %s
// RUN: oneflow-opt %s --stage linalg | oneflow-opt --oneflow-deterministic-scatter | FileCheck %s --check-prefix=CHECKED

// The last writer of each position is found first; then it writes, if no position is out of range.
// CHECK-LABEL: func.func private @many_kernel_0
// CHECK: oneflow_rt_check_index
// CHECK-LABEL: func.func private @many_kernel_1
// CHECK: linalg.fill {{.*}} -> tensor<41xi32>
// CHECK: scf.for {{.*}} -> (tensor<41xi32>)
// CHECK: arith.maxsi {{.*}} : i32
// CHECK-LABEL: func.func private @many_kernel_2
// CHECK: scf.for {{.*}} -> (tensor<40x5xf32>)
// CHECK: %[[MINE:.*]] = arith.cmpi eq
// CHECK: %[[FINE:.*]] = arith.cmpi eq
// CHECK: %[[MAY:.*]] = arith.andi %[[MINE]], %[[FINE]]
// CHECK: arith.select %[[MAY]]
// CHECK: oneflow.any_order
// CHECKED-LABEL: func.func @many
// CHECKED: %[[FIRST:.*]] = linalg.fill ins(%c-1_i32{{.*}} -> tensor<41xi32>
// CHECKED: %[[WRITERS:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[FIRST]]) -> (tensor<41xi32>)
// CHECKED: arith.maxsi {{.*}} : i32
// CHECKED: scf.for {{.*}} iter_args(%{{.*}} = %arg0) -> (tensor<40x5xf32>)
// CHECKED: %[[LAST:.*]] = tensor.extract %[[WRITERS]]
// CHECKED: arith.cmpi eq, %[[LAST]]
func.func @many(%x: tensor<40x5xf32>, %i: tensor<30x1xi64>, %u: tensor<30x5xf32>) -> tensor<40x5xf32> {
  %0 = "oneflow.tensor_scatter_nd_update"(%x, %u, %i) : (tensor<40x5xf32>, tensor<30x5xf32>, tensor<30x1xi64>) -> tensor<40x5xf32>
  return %0 : tensor<40x5xf32>
}

// Few steps run sequentially, and write to separate memory.
// CHECK-LABEL: func.func private @few_kernel_1
// CHECK: scf.for {{.*}} -> (tensor<40x5xf32>)
// CHECK-NOT: arith.select
// CHECK-NOT: oneflow.any_order
// CHECK: return
func.func @few(%x: tensor<40x5xf32>, %i: tensor<3x1xi64>, %u: tensor<3x5xf32>) -> tensor<40x5xf32> {
  %0 = "oneflow.tensor_scatter_nd_update"(%x, %u, %i) : (tensor<40x5xf32>, tensor<3x5xf32>, tensor<3x1xi64>) -> tensor<40x5xf32>
  return %0 : tensor<40x5xf32>
}

// In an argument that is given up, wrong positions are found before anything is written.
// CHECK-LABEL: func.func private @in_place_kernel_1
// CHECK: scf.for {{.*}} -> (tensor<1xi32>)
// CHECK-LABEL: func.func private @in_place_kernel_2
// CHECK: scf.for {{.*}} -> (tensor<40x5xf32>)
// CHECK: arith.select
// CHECK-NOT: oneflow.any_order
// CHECK: return
func.func @in_place(%x: tensor<40x5xf32> {oneflow.donated = 0 : i64}, %i: tensor<3x1xi64>, %u: tensor<3x5xf32>) -> tensor<40x5xf32> {
  %0 = "oneflow.tensor_scatter_nd_update"(%x, %u, %i) : (tensor<40x5xf32>, tensor<3x5xf32>, tensor<3x1xi64>) -> tensor<40x5xf32>
  return %0 : tensor<40x5xf32>
}
