// RUN: oneflow-opt %s --oneflow-infer-types | FileCheck %s

// CHECK-LABEL: func.func @cocoreader(
// CHECK: "oneflow.cocoreader"({{.*}}) {annotation_file = "data/coco.json", batch_size = 3 : i64, group_by_ratio = false, image_bytes = 90 : i64, image_dir = "data", max_objects = 2 : i64, max_points = 11 : i64, remove_images_without_annotations = false, shuffle_after_epoch = false} : () -> (tensor<3x90xui8>, tensor<3xi64>, tensor<3x2xi32>, tensor<3x2x4xf32>, tensor<3x2xi32>, tensor<3x11x2xf32>, tensor<3x11x3xi32>)
func.func @cocoreader() -> (tensor<*xui8>, tensor<*xi64>, tensor<*xi32>, tensor<*xf32>, tensor<*xi32>, tensor<*xf32>, tensor<*xi32>) {
  %0:7 = "oneflow.cocoreader"() {annotation_file = "data/coco.json", batch_size = 3 : i64, group_by_ratio = false, image_bytes = 90 : i64, image_dir = "data", max_objects = 2 : i64, max_points = 11 : i64, remove_images_without_annotations = false, shuffle_after_epoch = false} : () -> (tensor<*xui8>, tensor<*xi64>, tensor<*xi32>, tensor<*xf32>, tensor<*xi32>, tensor<*xf32>, tensor<*xi32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5, %0#6 : tensor<*xui8>, tensor<*xi64>, tensor<*xi32>, tensor<*xf32>, tensor<*xi32>, tensor<*xf32>, tensor<*xi32>
}

// CHECK-LABEL: func.func @raw_reader(
// CHECK: "oneflow.raw_reader"({{.*}}) {batch_size = 3 : i64, data_type = f32, files = ["data/tensors.bin"], random_shuffle = false, shape = array<i64: 2>, shuffle_block_size = 0 : i64} : () -> tensor<3x2xf32>
func.func @raw_reader() -> tensor<*xf32> {
  %0 = "oneflow.raw_reader"() {batch_size = 3 : i64, data_type = f32, files = ["data/tensors.bin"], random_shuffle = false, shape = array<i64: 2>, shuffle_block_size = 0 : i64} : () -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// CHECK-LABEL: func.func @megatron_gpt_mmap_data_loader(
// CHECK: "oneflow.megatron_gpt_mmap_data_loader"({{.*}}) {batch_size = 3 : i64, data_file_prefix = "data/tokens", dtype = i32, num_samples = 300 : i64, seq_length = 2 : i64, split_sizes = array<i64: 1>} : () -> tensor<3x3xi32>
func.func @megatron_gpt_mmap_data_loader() -> tensor<*xi32> {
  %0 = "oneflow.megatron_gpt_mmap_data_loader"() {batch_size = 3 : i64, data_file_prefix = "data/tokens", dtype = i32, num_samples = 300 : i64, seq_length = 2 : i64, split_sizes = array<i64: 1>} : () -> tensor<*xi32>
  return %0 : tensor<*xi32>
}

// A loader of tokens with the number of a batch gives the next number.

// CHECK-LABEL: func.func @numbered_batches(
// CHECK: "oneflow.megatron_gpt_mmap_data_loader"(%arg0) {{.*}} : (tensor<1xi64>) -> (tensor<3x3xi32>, tensor<1xi64>)
func.func @numbered_batches(%arg0: tensor<1xi64>) -> (tensor<*xi32>, tensor<*xi64>) {
  %0:2 = "oneflow.megatron_gpt_mmap_data_loader"(%arg0) {batch_size = 3 : i64, data_file_prefix = "data/tokens", dtype = i32, num_samples = 300 : i64, seq_length = 2 : i64, split_sizes = [1]} : (tensor<1xi64>) -> (tensor<*xi32>, tensor<*xi64>)
  return %0#0, %0#1 : tensor<*xi32>, tensor<*xi64>
}
