// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --oneflow-infer-types --oneflow-decompose | FileCheck %s --check-prefix=PARTS

// CHECK-LABEL: func.func @orders(
// CHECK-NEXT: "oneflow.sort"(%{{.*}}) {direction = "ASCENDING"} : (tensor<?x5xf32>) -> tensor<?x5xf32>
// CHECK-NEXT: "oneflow.arg_sort"(%{{.*}}) {direction = "DESCENDING"} : (tensor<?x5xf32>) -> tensor<?x5xi32>
// CHECK-NEXT: "oneflow.top_k"(%{{.*}}) {k = 3 : i32} : (tensor<?x5xf32>) -> tensor<?x3xi64>
// PARTS-LABEL: func.func @orders(
// PARTS-NEXT: %[[AT:.*]] = "oneflow.arg_sort"(%[[X:.*]]) {direction = "ASCENDING"}
// PARTS-NEXT: "oneflow.dim_gather"(%[[X]], %[[AT]])
func.func @orders(%x: tensor<?x5xf32>) -> (tensor<*xf32>, tensor<*xi32>, tensor<*xi64>) {
  %0 = "oneflow.sort"(%x) {direction = "ASCENDING"} : (tensor<?x5xf32>) -> tensor<*xf32>
  %1 = "oneflow.arg_sort"(%x) {direction = "DESCENDING"} : (tensor<?x5xf32>) -> tensor<*xi32>
  %2 = "oneflow.top_k"(%x) {k = 3 : si32} : (tensor<?x5xf32>) -> tensor<*xi64>
  return %0, %1, %2 : tensor<*xf32>, tensor<*xi32>, tensor<*xi64>
}

// CHECK-LABEL: func.func @chosen(
// CHECK-NEXT: "oneflow.median"(%{{.*}}) : (tensor<?x5xf16>) -> tensor<f16>
// CHECK-NEXT: "oneflow.median_with_indices"(%{{.*}}) : (tensor<?x5xf16>) -> (tensor<?xf16>, tensor<?xi64>)
// CHECK-NEXT: "oneflow.mode"(%{{.*}}) : (tensor<?x5xf16>) -> (tensor<?xf16>, tensor<?xi64>)
func.func @chosen(%x: tensor<?x5xf16>) -> (tensor<*xf16>, tensor<*xf16>, tensor<*xf16>) {
  %0 = "oneflow.median"(%x) : (tensor<?x5xf16>) -> tensor<*xf16>
  %1:2 = "oneflow.median_with_indices"(%x) : (tensor<?x5xf16>) -> (tensor<*xf16>, tensor<*xi64>)
  %2:2 = "oneflow.mode"(%x) : (tensor<?x5xf16>) -> (tensor<*xf16>, tensor<*xi64>)
  return %0, %1#0, %2#0 : tensor<*xf16>, tensor<*xf16>, tensor<*xf16>
}

// CHECK-LABEL: func.func @searches(
// CHECK-NEXT: "oneflow.searchsorted"(%{{.*}}, %{{.*}}) {out_int32 = true} : (tensor<9xf32>, tensor<?x2xf32>) -> tensor<?x2xi32>
// CHECK-NEXT: "oneflow.searchsorted_scalar"(%{{.*}}) {values = 2.000000e+00 : f32} : (tensor<9xf32>) -> tensor<i64>
// CHECK-NEXT: "oneflow.in_top_k"(%{{.*}}, %{{.*}}) {k = 1 : i32} : (tensor<?xi32>, tensor<?x2xf32>) -> tensor<?xi1>
func.func @searches(%x: tensor<9xf32>, %v: tensor<?x2xf32>, %t: tensor<?xi32>)
    -> (tensor<*xi32>, tensor<*xi64>, tensor<*xi1>) {
  %0 = "oneflow.searchsorted"(%x, %v) {out_int32 = true} : (tensor<9xf32>, tensor<?x2xf32>) -> tensor<*xi32>
  %1 = "oneflow.searchsorted_scalar"(%x) {values = 2.0 : f32} : (tensor<9xf32>) -> tensor<*xi64>
  %2 = "oneflow.in_top_k"(%t, %v) {k = 1 : si32} : (tensor<?xi32>, tensor<?x2xf32>) -> tensor<*xi1>
  return %0, %1, %2 : tensor<*xi32>, tensor<*xi64>, tensor<*xi1>
}

// CHECK-LABEL: func.func @distinct(
// CHECK-NEXT: "oneflow.unique"(%{{.*}}) {out_idx = i32} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi32>, tensor<1xi32>)
// CHECK-NEXT: "oneflow.unique_with_counts"(%{{.*}}) {out_idx = i64} : (tensor<?xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<1xi64>, tensor<?xi64>)
// CHECK-NEXT: "oneflow.argwhere"(%{{.*}}) {dtype = i64} : (tensor<2x3xi1>) -> (tensor<6x2xi64>, tensor<1xi64>)
// CHECK-NEXT: "oneflow.bincount"(%{{.*}}) {size = 4 : i64} : (tensor<?xi64>) -> tensor<4xi64>
func.func @distinct(%x: tensor<?xf32>, %m: tensor<2x3xi1>, %n: tensor<?xi64>)
    -> (tensor<*xf32>, tensor<*xf32>, tensor<*xi64>, tensor<*xi64>) {
  %0:3 = "oneflow.unique"(%x) {out_idx = 5 : i32} : (tensor<?xf32>) -> (tensor<*xf32>, tensor<*xi32>, tensor<*xi32>)
  %1:4 = "oneflow.unique_with_counts"(%x) {out_idx = 6 : i32} : (tensor<?xf32>) -> (tensor<*xf32>, tensor<*xi64>, tensor<*xi64>, tensor<*xi64>)
  %2:2 = "oneflow.argwhere"(%m) {dtype = 6 : i32} : (tensor<2x3xi1>) -> (tensor<*xi64>, tensor<*xi64>)
  %3 = "oneflow.bincount"(%n) {size = 4 : si64} : (tensor<?xi64>) -> tensor<*xi64>
  return %0#0, %1#0, %2#0, %3 : tensor<*xf32>, tensor<*xf32>, tensor<*xi64>, tensor<*xi64>
}
