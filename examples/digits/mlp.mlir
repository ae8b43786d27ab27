// A classifier of handwritten digits: 64 pixels, 32 hidden units, 10 classes. Its weights are in
// mlp.safetensors, under the names of the arguments; the batch is of any size.
func.func @predict(
    %x: tensor<?x64xf32> {oneflow.name = "x"},
    %w0: tensor<64x32xf32> {oneflow.name = "w0"}, %b0: tensor<32xf32> {oneflow.name = "b0"},
    %w1: tensor<32x10xf32> {oneflow.name = "w1"}, %b1: tensor<10xf32> {oneflow.name = "b1"})
    -> (tensor<?xi64> {oneflow.name = "label"}, tensor<?x10xf32> {oneflow.name = "probability"}) {
  %0 = "oneflow.matmul"(%x, %w0) : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %1 = "oneflow.bias_add"(%0, %b0) {axis = 1 : i32} : (tensor<?x32xf32>, tensor<32xf32>) -> tensor<?x32xf32>
  %2 = "oneflow.relu"(%1) : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %3 = "oneflow.matmul"(%2, %w1) : (tensor<?x32xf32>, tensor<32x10xf32>) -> tensor<?x10xf32>
  %4 = "oneflow.bias_add"(%3, %b1) {axis = 1 : i32} : (tensor<?x10xf32>, tensor<10xf32>) -> tensor<?x10xf32>
  %probability = "oneflow.softmax"(%4) : (tensor<?x10xf32>) -> tensor<?x10xf32>
  %label = "oneflow.argmax"(%4) : (tensor<?x10xf32>) -> tensor<?xi64>
  return %label, %probability : tensor<?xi64>, tensor<?x10xf32>
}
