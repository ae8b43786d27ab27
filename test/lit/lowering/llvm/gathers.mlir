// RUN: oneflow-opt %s --stage kernels --target x86-64-v4 | oneflow-opt --oneflow-emit-kernels --target x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4
// RUN: oneflow-opt %s --stage kernels --target x86-64-v3 | oneflow-opt --oneflow-emit-kernels --target x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3

// The lanes search concurrently; targets without masks, whose gathers cost more, search one by one.
// CHECK-LABEL: func.func private @search_kernel_0(
// V4: vector.gather %{{.*}}[%{{.*}}] [%{{.*}}], %{{.*}}, %{{.*}} : memref<1000xf32>, vector<[[N:[0-9]+]]xindex>, vector<[[N]]xi1>, vector<[[N]]xf32> into vector<[[N]]xf32>
// V3-NOT: vector.gather
// V3: memref.load
func.func @search(%row: tensor<1000xf32>, %x: tensor<4096xf32>) -> tensor<4096xi64> {
  %0 = "oneflow.searchsorted"(%row, %x) : (tensor<1000xf32>, tensor<4096xf32>) -> tensor<4096xi64>
  return %0 : tensor<4096xi64>
}

// A position that only depends on the loop is computed once for a row: lanes would compute the position each.
// CHECK-LABEL: func.func private @nearest_kernel_0(
// CHECK-NOT: vector.gather
// CHECK: return
func.func @nearest(%x: tensor<1x1x8x8xf32>) -> tensor<1x1x20x20xf32> {
  %0 = "oneflow.upsample_nearest_2d"(%x) {height_scale = 2.5 : f64, width_scale = 2.5 : f64, output_size = [20, 20], data_format = "channels_first"} : (tensor<1x1x8x8xf32>) -> tensor<1x1x20x20xf32>
  return %0 : tensor<1x1x20x20xf32>
}
