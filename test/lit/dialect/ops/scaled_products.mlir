// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s
// RUN: oneflow-opt %s --stage linalg | FileCheck %s --check-prefix=LINALG

// CHECK-LABEL: func.func @scaled
// CHECK: "oneflow.scaled_mm"(%{{.*}}) {out_dtype = bf16} : (tensor<?x16xf8E4M3FN>, tensor<16x8xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<?x8xbf16>
// LINALG-LABEL: func.func @scaled
// LINALG: arith.extf %{{.*}} : f8E4M3FN to f32
// LINALG: arith.extf %{{.*}} : f8E5M2 to f32
func.func @scaled(%a: tensor<?x16xf8E4M3FN>, %b: tensor<16x8xf8E5M2>, %s: tensor<f32>) -> tensor<?x?xbf16> {
  %0 = "oneflow.scaled_mm"(%a, %b, %s, %s) {out_dtype = bf16} : (tensor<?x16xf8E4M3FN>, tensor<16x8xf8E5M2>, tensor<f32>, tensor<f32>) -> tensor<?x?xbf16>
  return %0 : tensor<?x?xbf16>
}

// A number beyond the largest becomes the largest, NaN stays.
// LINALG-LABEL: func.func @stored
// LINALG: %[[LEAST:.*]] = arith.constant -4.480000e+02 : f32
// LINALG: %[[ABOVE:.*]] = arith.maximumf %{{.*}}, %[[LEAST]] : f32
// LINALG: %[[INSIDE:.*]] = arith.minimumf %[[ABOVE]]
// LINALG: arith.truncf %[[INSIDE]] : f32 to f8E4M3FN
func.func @stored(%x: tensor<4xf32>) -> tensor<4xf8E4M3FN> {
  %0 = "oneflow.cast"(%x) {dtype = f8E4M3FN} : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  return %0 : tensor<4xf8E4M3FN>
}
