"""The operators of each family, by which the registry finds the module of an operator.

Generated from the records by `docs/generate.py`.
"""

OPERATORS = {
    "adaptive_max_pool": """
        adaptive_max_pool1d adaptive_max_pool1d_grad adaptive_max_pool2d adaptive_max_pool2d_grad adaptive_max_pool3d
        adaptive_max_pool3d_grad
    """,
    "adaptive_pool": """
        adaptive_avg_pool1d adaptive_avg_pool1d_grad adaptive_avg_pool2d adaptive_avg_pool2d_grad adaptive_avg_pool3d
        adaptive_avg_pool3d_grad
    """,
    "assign": """
        assign assign_if assign_if_not
    """,
    "attention": """
        attention attention_grad
    """,
    "attention_forms": """
        fused_multi_head_attention_inference scaled_dot_product_flash_attention
        scaled_dot_product_flash_attention_grad
    """,
    "batch_norm": """
        normalization normalization_grad
    """,
    "batch_norm_parts": """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats_with_counts
        batch_norm_stats
    """,
    "batch_norm_relu": """
        cudnn_fused_normalization_add_relu cudnn_fused_normalization_add_relu_grad normalization_add_relu
        normalization_add_relu_grad
    """,
    "binary": """
        add_n atan2 broadcast_add broadcast_bitwise_and broadcast_bitwise_or broadcast_bitwise_xor broadcast_div
        broadcast_equal broadcast_floor_mod broadcast_fmod broadcast_greater broadcast_greater_equal
        broadcast_isclose_eq_nan broadcast_isclose_neq_nan broadcast_less broadcast_less_equal broadcast_logical_and
        broadcast_logical_or broadcast_logical_xor broadcast_maximum broadcast_minimum broadcast_mul
        broadcast_mul_no_nan broadcast_not_equal broadcast_pow broadcast_sub floordiv pow truncdiv xdivy xlogy
    """,
    "boxing": """
        eager_b_to_s eager_ccl_all_gather eager_ccl_all_reduce eager_ccl_broadcast eager_ccl_reduce
        eager_ccl_reduce_scatter eager_ccl_s2s eager_naive_s_to_s eager_p_to_b eager_p_to_s eager_s_to_b eager_s_to_p
        eager_symmetric_s_to_p nccl_logical_2d_same_dim0_all2all nccl_logical_2d_same_dim0_all_gather
        nccl_logical_2d_same_dim0_all_gather_noncontinuous nccl_logical_2d_same_dim0_all_reduce
        nccl_logical_2d_same_dim1_all_reduce nccl_logical_all_gather nccl_logical_all_gather_noncontinuous
        nccl_logical_all_reduce nccl_logical_fusion nccl_logical_reduce_scatter
        nccl_logical_reduce_scatter_noncontinuous nccl_logical_s2s nccl_logical_send_recv
    """,
    "class_loss": """
        nll nll_grad sparse_softmax_cross_entropy sparse_softmax_cross_entropy_grad sparse_softmax_cross_entropy_ms
        sparse_softmax_cross_entropy_ms_grad
    """,
    "class_sampling": """
        distributed_partial_fc_sample distributed_partial_fc_sample_disable_boxing roc_auc_score
    """,
    "complex_numbers": """
        conj_physical imag imag_grad real real_grad view_as_complex view_as_real
    """,
    "concat": """
        cat split_like stack stack_grad
    """,
    "control": """
        cond scan while_loop
    """,
    "conv": """
        conv1d conv2d conv3d conv_bias_grad conv_data_grad conv_filter_grad
    """,
    "cross_entropy": """
        binary_cross_entropy_with_logits_reduce_mean binary_cross_entropy_with_logits_reduce_mean_grad
        fused_bce_reduce_mean_fw_bw sigmoid_cross_entropy sigmoid_cross_entropy_grad softmax_cross_entropy
        softmax_cross_entropy_grad sparse_cross_entropy sparse_cross_entropy_grad sparse_cross_entropy_ms
        sparse_cross_entropy_ms_grad
    """,
    "data_readers": """
        cocoreader megatron_gpt_mmap_data_loader raw_reader
    """,
    "deconv": """
        deconv1d deconv2d deconv3d
    """,
    "detection": """
        deform_conv2d deform_conv2d_input_grad deform_conv2d_param_grad nms roi_align roi_align_grad
    """,
    "elementwise_grad": """
        abs_grad acos_grad acosh_grad asin_grad asinh_grad atan2_x_grad atan2_y_grad atan_grad atanh_grad
        broadcast_div_grad celu_grad clip_by_scalar_grad clip_by_scalar_max_grad clip_by_scalar_min_grad cos_grad
        cosh_grad elementwise_maximum elementwise_maximum_backward elementwise_minimum elementwise_minimum_backward
        elu_grad erf_grad erfc_grad exp2_grad exp_grad expm1_grad fast_gelu_grad floordiv_x_grad floordiv_y_grad
        gelu_grad hardshrink_grad hardsigmoid_grad hardswish_grad hardtanh_grad leaky_relu_grad log10_grad log1p_grad
        log2_grad log_grad log_sigmoid_grad mish_grad pow_x_grad pow_y_grad quick_gelu_grad reciprocal_grad
        reciprocal_no_nan_grad relu_grad rsqrt_grad scalar_pow_grad scalar_reverse_pow_grad selu_grad sigmoid_grad
        silu_grad sin_grad sinh_grad softplus_grad softshrink_grad softsign_grad sqrt_grad square_grad
        square_relu_grad tan_grad tanh_grad threshold_grad trunc_grad truncdiv_x_grad truncdiv_y_grad xdivy_x_grad
        xdivy_y_grad xlogy_x_grad xlogy_y_grad
    """,
    "embedding": """
        embedding embedding_grad
    """,
    "embedding_tables": """
        embedding_lookup embedding_prefetch embedding_put one_embedding_fused_lookup
        one_embedding_fused_sgd_update_put
    """,
    "feature_interaction": """
        fused_cross_feature_interaction fused_cross_feature_interaction_v1_grad
        fused_cross_feature_interaction_v2_grad fused_dot_feature_interaction fused_dot_feature_interaction_grad
    """,
    "fft": """
        fft_c2c fft_c2r fft_r2c fourier_of_pairs stft
    """,
    "flip_roll_triangle": """
        flip roll tril triu
    """,
    "fused": """
        cast_like dot fused_bias_add_gelu fused_bias_add_gelu_grad fused_bias_add_mask_scale fused_cast_scale
        fused_clip_grad fused_fast_gelu_mul fused_fast_gelu_mul_grad fused_get_boundding_boxes_coord
        fused_get_boundding_boxes_coord_grad fused_get_center_dist fused_get_center_dist_grad
        fused_get_ciou_diagonal_angle fused_get_ciou_diagonal_angle_grad fused_get_ciou_result
        fused_get_ciou_result_grad fused_get_convex_diagonal_squared fused_get_convex_diagonal_squared_grad
        fused_get_intersection_area fused_get_intersection_area_grad fused_get_iou fused_get_iou_grad fused_scale_tril
        fused_weighted_sum sqrt_square_sum tuple_identity
    """,
    "fused_attention": """
        fused_attention_concat_past_key_value fused_codegeex_qkv_reshape fused_self_attention_query_mul_key_and_value
        fused_self_attention_query_mul_key_and_value_grad
    """,
    "fused_linear": """
        cublas_bias_add_relu_matmul_grad cublas_fused_mlp cublas_fused_mlp_grad cublas_matmul_bias_add_grad
        fused_matmul_bias_add_relu_dropout fused_relu_dropout_grad grouped_matmul_bias
    """,
    "fused_softmax": """
        fused_bias_add_scale_mask_softmax_dropout fused_scale_mask_bias_softmax fused_scale_mask_bias_softmax_grad
        fused_scale_mask_softmax fused_scale_mask_softmax_dropout fused_scale_mask_softmax_dropout_grad
        fused_scale_mask_softmax_grad fused_tril_scale_softmax_mask_scale fused_tril_scale_softmax_mask_scale_grad
    """,
    "glu": """
        fused_glu fused_glu_without_linear_grad
    """,
    "gradients": """
        count_not_finite dynamic_loss_scale_schedule l1_l2_regularize_gradient multi_count_not_finite multi_square_sum
        square_sum
    """,
    "group_norm": """
        group_norm group_norm_grad group_norm_param_grad
    """,
    "groupwise": """
        fused_linear_with_groupwise_quantized_weight groupwise_dequantize
    """,
    "identity": """
        amp_black_identity amp_white_identity cast_to_static_shape copy copy_d2h copy_h2d depend identity_buffer
        pinned_identity stop_gradient to_contiguous
    """,
    "image_decoding": """
        image_decode image_random_crop
    """,
    "image_resizing": """
        image_resize_keep_aspect_ratio image_resize_to_fixed image_target_resize
    """,
    "images": """
        crop_mirror_normalize_from_tensorbuffer crop_mirror_normalize_from_uint8 image_batch_align image_flip
        image_normalize object_bbox_flip object_bbox_scale object_segmentation_polygon_flip
        object_segmentation_polygon_scale
    """,
    "indexed_slices": """
        indexed_slices_adam_update indexed_slices_momentum_update indexed_slices_reduce_sum indexed_slices_sgd_update
    """,
    "indexing": """
        batch_gather dim_gather gather gather_nd one_hot
    """,
    "interpolation": """
        affine_grid affine_grid_grad grid_sample grid_sample_grad
    """,
    "l2_normalize": """
        l2_normalize l2_normalize_grad
    """,
    "lerp": """
        lerp lerp_grad scalar_lerp scalar_lerp_grad
    """,
    "linalg": """
        det inv linalg_cross lu_decomposition slogdet slogdet_of_pairs
    """,
    "loss": """
        binary_cross_entropy binary_cross_entropy_with_logits kl_div_loss smooth_l1_loss
    """,
    "loss_grad": """
        binary_cross_entropy_grad binary_cross_entropy_with_logits_grad kl_div_loss_grad smooth_l1_loss_grad
    """,
    "margin_loss": """
        combined_margin_loss combined_margin_loss_grad
    """,
    "matmul": """
        batch_matmul bias_add broadcast_matmul broadcast_matmul_grad_b fused_matmul_bias matmul row_products
    """,
    "movement": """
        expand expand_dims reshape reshape_like squeeze transpose
    """,
    "multi_reduce": """
        local_multi_reduce_max_abs local_multi_reduce_min_abs multi_reduce_max_abs multi_reduce_min_abs
        multi_reduce_sum_pow_abs
    """,
    "multi_tensor": """
        multi_tensor_adam_update multi_tensor_adam_update_with_cast multi_tensor_momentum_update
        multi_tensor_momentum_update_with_cast multi_tensor_sgd_update multi_tensor_sgd_update_with_cast
        multi_tensor_yolov5_weight_update
    """,
    "noncontiguous": """
        noncontiguous_binary_op noncontiguous_binary_op_grad
    """,
    "norm": """
        layer_norm layer_norm_grad layer_norm_param_grad rms_norm rms_norm_grad rms_norm_param_grad
    """,
    "ofrecord": """
        ofrecord_bytes_decoder ofrecord_image_classification_reader ofrecord_image_decoder
        ofrecord_image_decoder_random_crop ofrecord_raw_decoder ofrecordreader
    """,
    "one_embedding": """
        embedding_gradient_shuffle embedding_shuffle id_shuffle id_shuffle_copy_out one_embedding_adagrad_update
        one_embedding_adam_update one_embedding_ftrl_update one_embedding_gather one_embedding_momentum_update
        one_embedding_sgd_update unique_key_value_pair
    """,
    "optimizer": """
        adadelta_update adagrad_update adam_bias_correction_factor adam_update ftrl_update lamb_update lars_update
        momentum_update rmsprop_update sgd_update
    """,
    "padding": """
        reflection_pad1d reflection_pad1d_grad reflection_pad2d reflection_pad2d_grad replication_pad1d
        replication_pad1d_grad replication_pad2d replication_pad2d_grad
    """,
    "parallel": """
        ccl_all_gather ccl_all_reduce ccl_all_to_all ccl_broadcast ccl_reduce ccl_reduce_scatter ccl_send_recv
        hierarchical_parallel_cast hierarchical_parallel_cast_like parallel_cast
    """,
    "polygons": """
        object_segmentation_polygon_to_mask
    """,
    "pool": """
        avg_pool_1d avg_pool_1d_grad avg_pool_2d avg_pool_2d_grad avg_pool_3d avg_pool_3d_grad max_pool_1d
        max_pool_1d_grad max_pool_2d max_pool_2d_grad max_pool_3d max_pool_3d_grad
    """,
    "prelu": """
        prelu prelu_grad tf_prelu tf_prelu_grad
    """,
    "products": """
        matrix_vector_product matrix_vector_product_grad_a matrix_vector_product_grad_b vector_matrix_product
        vector_matrix_product_grad_a vector_matrix_product_grad_b
    """,
    "quantization": """
        fake_quantization min_max_observer moving_average_min_max_observer quantization
    """,
    "random": """
        bernoulli dropout dropout_grad normal random_mask_like uniform uniform_int
    """,
    "random_distributions": """
        coin_flip exponential generate_random_batch_permutation_indices multinomial_with_replacement randperm rrelu
    """,
    "ranking": """
        arg_sort argwhere bincount in_top_k median median_with_indices mode searchsorted searchsorted_scalar sort
        top_k unique unique_with_counts
    """,
    "recurrent": """
        fused_gru_cell fused_gru_cell_grad fused_lstm_cell fused_lstm_cell_grad
    """,
    "reduce": """
        argmax broadcast_like reduce_all reduce_any reduce_max reduce_min reduce_nansum reduce_prod reduce_sum
        reduce_sum_like
    """,
    "reduce_stages": """
        reduce_max_device_stage reduce_max_device_stage_grad reduce_max_global_stage reduce_max_global_stage_grad
        reduce_min_device_stage reduce_min_device_stage_grad reduce_min_global_stage reduce_min_global_stage_grad
    """,
    "rotary_embedding": """
        fused_apply_rotary_emb
    """,
    "same_padding": """
        same_padding same_padding_grad
    """,
    "scalar_ops": """
        host_scalar_add_by_tensor scalar_add scalar_add_by_tensor scalar_bitwise_and scalar_bitwise_or
        scalar_bitwise_xor scalar_div scalar_div_by_tensor scalar_floordiv scalar_fmod scalar_logical_and
        scalar_logical_equal scalar_logical_greater scalar_logical_greater_equal scalar_logical_less
        scalar_logical_less_equal scalar_logical_not_equal scalar_logical_or scalar_logical_xor scalar_mul
        scalar_mul_by_tensor scalar_pow scalar_reverse_pow scalar_sub_by_tensor scalar_truncdiv
    """,
    "scaled_products": """
        scaled_mm
    """,
    "scan": """
        cumprod cumprod_grad cumsum product_of_others
    """,
    "scatter_reduce": """
        dim_scatter_add_scalar dim_scatter_amax dim_scatter_amin dim_scatter_mul dim_scatter_mul_scalar
        dim_scatter_update dim_scatter_update_scalar embedding_renorm index_add repeat_interleave
        tensor_scatter_nd_add
    """,
    "scatter_update": """
        tensor_scatter_nd_update
    """,
    "scattering": """
        dim_scatter_add dim_scatter_add_like scatter_nd scatter_nd_like unsorted_batch_segment_sum
        unsorted_segment_sum unsorted_segment_sum_like
    """,
    "select": """
        cast clip_by_scalar clip_by_scalar_max clip_by_scalar_min masked_fill where
    """,
    "sequences": """
        ctc_greedy_decoder ctc_loss ctc_loss_grad
    """,
    "skip_norm": """
        fuse_layer_norm_grad skip_layer_norm skip_rms_norm
    """,
    "slicing": """
        narrow narrow_grad pad slice slice_grad slice_update
    """,
    "softmax": """
        log_softmax log_softmax_grad softmax softmax_grad
    """,
    "source": """
        arange constant dim_size empty eye ones_like positions tensor_constant zero_like
    """,
    "special_functions": """
        broadcast_zeta digamma digamma_grad erfinv lgamma lgamma_grad trigamma
    """,
    "strided": """
        as_strided as_strided_grad diag diag_grad diagonal diagonal_grad fold unfold unfold_tensor unfold_tensor_grad
    """,
    "tensor_lists": """
        gen_tensor_buffer tensor_buffer_to_list_of_tensors tensor_buffer_to_list_of_tensors_v2 tensor_buffer_to_tensor
        tensor_to_tensor_buffer
    """,
    "tf_pool": """
        tf_avg_pool_1d tf_avg_pool_1d_grad tf_avg_pool_2d tf_avg_pool_2d_grad tf_avg_pool_3d tf_avg_pool_3d_grad
        tf_max_pool_1d tf_max_pool_1d_grad tf_max_pool_2d tf_max_pool_2d_grad tf_max_pool_3d tf_max_pool_3d_grad
    """,
    "unary": """
        abs acos acosh asin asinh atan atanh bitwise_not ceil celu cos cosh elu erf erfc exp exp2 expm1 fast_gelu
        floor frac gelu hardshrink hardsigmoid hardswish hardtanh identity isfinite isinf isnan leaky_relu log log10
        log1p log2 log_sigmoid logical_not mish negative not_equal_zero quick_gelu reciprocal reciprocal_no_nan relu
        rint round rsqrt selu sigmoid sign silu sin sinh softplus softshrink softsign sqrt square square_relu tan tanh
        threshold trunc
    """,
    "unpool": """
        max_unpool_1d max_unpool_1d_grad max_unpool_2d max_unpool_2d_grad max_unpool_3d max_unpool_3d_grad
    """,
    "upsample": """
        upsample_bicubic_2d upsample_bicubic_2d_grad upsample_bilinear_2d upsample_bilinear_2d_grad upsample_linear_1d
        upsample_linear_1d_grad upsample_nearest_1d upsample_nearest_1d_grad upsample_nearest_2d
        upsample_nearest_2d_grad upsample_nearest_3d upsample_nearest_3d_grad upsample_nearest_exact_1d
        upsample_nearest_exact_1d_grad upsample_nearest_exact_2d upsample_nearest_exact_2d_grad
        upsample_nearest_exact_3d upsample_nearest_exact_3d_grad upsample_trilinear_3d upsample_trilinear_3d_grad
    """,
    "variance": """
        var
    """,
}
#: The family of each operator.
FAMILY_OF = {name: family for family, names in OPERATORS.items() for name in names.split()}
