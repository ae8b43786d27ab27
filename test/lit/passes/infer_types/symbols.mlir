// RUN: oneflow-opt %s --oneflow-infer-types --split-input-file | FileCheck %s

// A symbol refers to the module around the call: equal names in two modules are two functions.
// CHECK-LABEL: module @a
// CHECK: func.func private @f(%arg0: tensor<3xf32>) -> tensor<3xf32>
// CHECK: call @f(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK-LABEL: module @b
// CHECK: func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32>
module {
  module @a {
    func.func private @f(%x: tensor<*xf32>) -> tensor<*xf32> { return %x : tensor<*xf32> }
    func.func @c(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = tensor.cast %x : tensor<3xf32> to tensor<*xf32>
      %1 = call @f(%0) : (tensor<*xf32>) -> tensor<*xf32>
      %2 = tensor.cast %1 : tensor<*xf32> to tensor<3xf32>
      return %2 : tensor<3xf32>
    }
  }
  module @b {
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
  }
}

// -----

// A function that is used as a value keeps the declared type, for any types of its calls.
// CHECK-LABEL: func.func private @g(%arg0: tensor<?xf32>) -> tensor<?xf32>
func.func private @g(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = "oneflow.relu"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
func.func @main(%x: tensor<3xf32>, %y: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c = tensor.cast %x : tensor<3xf32> to tensor<?xf32>
  %0 = call @g(%c) : (tensor<?xf32>) -> tensor<?xf32>
  %f = func.constant @g : (tensor<?xf32>) -> tensor<?xf32>
  %1 = call_indirect %f(%y) : (tensor<?xf32>) -> tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
