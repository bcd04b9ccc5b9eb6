/// Trained weights in the formats that a checkpoint of the released layout stores them in: what an export
/// writes, what an engine in this process gets, and what the forward of quantisation-aware training sees are
/// one rounding.
#pragma once

#include <span>
#include <vector>

#include "model/tensor_table.h"
#include "model_files/matrix_codec.h"
#include "numeric/bf16.h"
#include "parallel/thread_pool.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// Of the matrices of an export.
[[nodiscard]] StorageFormats stored_formats(const ModelConfig& config);

/// A matrix tensor in its format, with the released rule for scales. The bytes do not depend on the threads.
void encode_matrix(const TensorSpec& tensor, std::span<const float> values, const StorageFormats& formats,
                   EncodedMatrix& encoded, ThreadPool& pool);

/// A tensor that is stored in BF16.
[[nodiscard]] std::vector<Bf16Bits> bf16_of(std::span<const float> values);

/// `stored`, of the same table, becomes the values that the tensors of `weights` have when they are read
/// from a checkpoint. One encoding and one decoding of every value; nothing depends on the threads.
void round_to_stored(const Parameters<float>& weights, const StorageFormats& formats,
                     Parameters<float>& stored, ThreadPool& pool);

}  // namespace baleen
