// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @along(
// CHECK-NEXT: "oneflow.dim_scatter_update"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.dim_scatter_mul"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.dim_scatter_amax"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.dim_scatter_amin"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<?x4xf32>
func.func @along(%x: tensor<?x4xf32>, %i: tensor<2x4xi64>, %s: tensor<3x4xf32>) -> tensor<*xf32> {
  %0 = "oneflow.dim_scatter_update"(%x, %i, %s) : (tensor<?x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.dim_scatter_mul"(%0, %i, %s) : (tensor<*xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<*xf32>
  %2 = "oneflow.dim_scatter_amax"(%1, %i, %s) : (tensor<*xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<*xf32>
  %3 = "oneflow.dim_scatter_amin"(%2, %i, %s) : (tensor<*xf32>, tensor<2x4xi64>, tensor<3x4xf32>) -> tensor<*xf32>
  return %3 : tensor<*xf32>
}

// CHECK-LABEL: func.func @numbers(
// CHECK-NEXT: "oneflow.dim_scatter_update_scalar"(%{{.*}}, %{{.*}}) {src_scalar = 2.000000e+00 : f32} : (tensor<?x4xf32>, tensor<2x4xi64>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.dim_scatter_mul_scalar"(%{{.*}}, %{{.*}}) {src_scalar = 2.000000e+00 : f32} : (tensor<?x4xf32>, tensor<2x4xi64>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.dim_scatter_add_scalar"(%{{.*}}, %{{.*}}) {src_scalar = 2.000000e+00 : f32} : (tensor<?x4xf32>, tensor<2x4xi64>) -> tensor<?x4xf32>
func.func @numbers(%x: tensor<?x4xf32>, %i: tensor<2x4xi64>) -> tensor<*xf32> {
  %0 = "oneflow.dim_scatter_update_scalar"(%x, %i) {src_scalar = 2.0 : f32} : (tensor<?x4xf32>, tensor<2x4xi64>) -> tensor<*xf32>
  %1 = "oneflow.dim_scatter_mul_scalar"(%0, %i) {src_scalar = 2.0 : f32} : (tensor<*xf32>, tensor<2x4xi64>) -> tensor<*xf32>
  %2 = "oneflow.dim_scatter_add_scalar"(%1, %i) {src_scalar = 2.0 : f32} : (tensor<*xf32>, tensor<2x4xi64>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}

// CHECK-LABEL: func.func @slices(
// CHECK-NEXT: "oneflow.index_add"(%{{.*}}, %{{.*}}, %{{.*}}) {alpha = 2.000000e+00 : f32, dim = 0 : i64} : (tensor<?x4xf32>, tensor<2xi64>, tensor<2x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.tensor_scatter_nd_add"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<?x4xf32>, tensor<2x4xf32>, tensor<2x1xi64>) -> tensor<?x4xf32>
// CHECK-NEXT: "oneflow.embedding_renorm"(%{{.*}}, %{{.*}}) {max_norm = 1.000000e+00 : f64} : (tensor<?x4xf32>, tensor<2xi64>) -> tensor<?x4xf32>
func.func @slices(%x: tensor<?x4xf32>, %i: tensor<2xi64>, %s: tensor<2x4xf32>, %n: tensor<2x1xi64>) -> tensor<*xf32> {
  %0 = "oneflow.index_add"(%x, %i, %s) {dim = 0 : si64, alpha = 2.0 : f32} : (tensor<?x4xf32>, tensor<2xi64>, tensor<2x4xf32>) -> tensor<*xf32>
  %1 = "oneflow.tensor_scatter_nd_add"(%0, %s, %n) : (tensor<*xf32>, tensor<2x4xf32>, tensor<2x1xi64>) -> tensor<*xf32>
  %2 = "oneflow.embedding_renorm"(%1, %i) {max_norm = 1.0 : f64} : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
  return %2 : tensor<*xf32>
}

// CHECK-LABEL: func.func @repeated(
// CHECK-NEXT: "oneflow.repeat_interleave"(%{{.*}}, %{{.*}}) {repeat_num = 7 : i64} : (tensor<3xf32>, tensor<3xi64>) -> tensor<7xf32>
func.func @repeated(%x: tensor<3xf32>, %c: tensor<3xi64>) -> tensor<*xf32> {
  %0 = "oneflow.repeat_interleave"(%x, %c) {repeat_num = 7 : si64} : (tensor<3xf32>, tensor<3xi64>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
