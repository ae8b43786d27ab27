// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto" | FileCheck %s --check-prefix=WHOLE
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto compute=1" | FileCheck %s --check-prefix=SPLIT
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto compute=1 latency=1000" | FileCheck %s --check-prefix=WHOLE
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto compute=1 bandwidth=0.01" | FileCheck %s --check-prefix=WHOLE
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto latency=0 bandwidth=1000" | FileCheck %s --check-prefix=SPLIT

// 64 * 64 * 64 multiply-adds, 16 KiB of result. A fast machine computes the whole product on every
// device; a slow machine splits the product, unless the gather takes longer: with a high latency, or over slow links.
// With almost free transfers a fast machine splits the product too.
// WHOLE-LABEL: func.func @f
// WHOLE: "oneflow.matmul"
// WHOLE-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.broadcast{{\]\]}}
// SPLIT-LABEL: func.func @f
// SPLIT: "oneflow.matmul"
// SPLIT-SAME: oneflow.out_nd_sbp = {{\[\[}}#sbp.split<{{.}} : i64>{{\]\]}}
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @f(%x: tensor<64x64xf32> {oneflow.nd_sbp = [#sbp.broadcast]}, %w: tensor<64x64xf32> {oneflow.nd_sbp = [#sbp.broadcast]})
      -> (tensor<64x64xf32> {oneflow.nd_sbp = [#sbp.broadcast]}) {
    %0 = "oneflow.matmul"(%x, %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}
