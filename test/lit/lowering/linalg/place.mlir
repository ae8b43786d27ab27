// RUN: oneflow-opt %s --convert-oneflow-to-linalg | FileCheck %s

// CHECK: oneflow.sites = ["oneflow.cat: dimension 1 of in[1], which is dimension 1 of in[0] ({{.*}}place.mlir:27:8)"

// CHECK-LABEL: func.func @next_to_each_other(
// CHECK: %[[E:.*]] = tensor.empty() : tensor<2x7xf32>
// CHECK: %[[A:.*]] = tensor.insert_slice %arg0 into %[[E]][0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x7xf32>
// CHECK: tensor.insert_slice %arg1 into %[[A]][0, 3] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<2x7xf32>
func.func @next_to_each_other(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) -> tensor<2x7xf32> {
  %x = tensor.cast %a : tensor<2x3xf32> to tensor<2x?xf32>
  %y = tensor.cast %b : tensor<2x4xf32> to tensor<2x?xf32>
  %0 = "oneflow.cat"(%x, %y) {axis = 1 : si64} : (tensor<2x?xf32>, tensor<2x?xf32>) -> tensor<2x7xf32>
  return %0 : tensor<2x7xf32>
}

// Along the other axes the parts have to be as large as the whole.

// CHECK-LABEL: func.func @below(
// CHECK: %[[N:.*]] = tensor.dim %arg0, %{{.*}} : tensor<2x?xf32>
// CHECK: %[[M:.*]] = tensor.dim %arg1, %{{.*}} : tensor<3x?xf32>
// CHECK: call @oneflow_rt_check_size
// CHECK: tensor.insert_slice %arg0 into %{{.*}}[0, 0] [2, %[[N]]] [1, 1] : tensor<2x?xf32> into tensor<5x?xf32>
// CHECK: tensor.insert_slice %arg1 into %{{.*}}[2, 0] [3, %[[M]]] [1, 1] : tensor<3x?xf32> into tensor<5x?xf32>
func.func @below(%a: tensor<2x?xf32>, %b: tensor<3x?xf32>) -> tensor<5x?xf32> {
  %x = tensor.cast %a : tensor<2x?xf32> to tensor<?x?xf32>
  %y = tensor.cast %b : tensor<3x?xf32> to tensor<?x?xf32>
  %0 = "oneflow.cat"(%x, %y) {axis = 0 : si64} : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<5x?xf32>
  return %0 : tensor<5x?xf32>
}

// A part that begins at the end has to be empty, which is checked at run time; nothing is inserted.

// CHECK-LABEL: func.func @at_the_end(
// CHECK: call @oneflow_rt_check_size
// CHECK-NOT: tensor.insert_slice
// CHECK: return
func.func @at_the_end(%dy: tensor<2x?xf32>) -> tensor<5x4xf32> {
  %0 = "oneflow.slice_grad"(%dy) {like_shape = [5, 4], start = [1, 128], stop = [5, 4], step = [2, 1]}
    : (tensor<2x?xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
