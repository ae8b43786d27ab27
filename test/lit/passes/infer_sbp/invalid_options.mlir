// RUN: not oneflow-opt %s --oneflow-infer-sbp="strategy=best" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=STRATEGY
// RUN: not oneflow-opt %s --oneflow-infer-sbp="mesh=2,x" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not oneflow-opt %s --oneflow-infer-sbp="interconnect=nvlnk" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=LINK
// RUN: not oneflow-opt %s --oneflow-infer-sbp="bandwidth=0" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=BANDWIDTH
// RUN: not oneflow-opt %s --oneflow-infer-sbp="strategy=auto compute=nan" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=COMPUTE
// RUN: not oneflow-opt %s --oneflow-infer-sbp="strategy=auto latency=-1" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=LATENCY
// RUN: not oneflow-opt %s --oneflow-infer-sbp="strategy=auto memory=-1" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not oneflow-opt %s --oneflow-infer-sbp="strategy=auto time-limit=-1" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=TIME
// RUN: not oneflow-opt %s --oneflow-infer-sbp="view=%t/none/page.html" --reproducer-dir=%t 2>&1 | FileCheck %s --check-prefix=VIEW
// RUN: oneflow-opt %s --oneflow-infer-sbp="strategy=auto time-limit=0 latency=0" | FileCheck %s

// STRATEGY: error: option strategy: expected one of greedy, auto, got 'best'
// MESH: error: expected a mesh of positive sizes such as array<i64: 2, 2>, got the option mesh=2,x
// LINK: error: option interconnect: expected one of ethernet, infiniband, pcie, nvlink, got 'nvlnk'{{.*}}nvlink
// BANDWIDTH: error: option bandwidth: expected a number above 0, got 0.0
// COMPUTE: error: option compute: expected a number above 0, got nan
// LATENCY: error: option latency: expected a number of 0 or more, got -1.0
// MEMORY: error: option memory: expected a number of 0 or more, got -1.0
// TIME: error: option time-limit: expected a number of 0 or more, got -1.0
// VIEW: error: option view: {{.*}}No such file or directory
// CHECK: "oneflow.relu"(%arg0) {oneflow.in_nd_sbp
module attributes {oneflow.mesh = array<i64: 2>} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "oneflow.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
