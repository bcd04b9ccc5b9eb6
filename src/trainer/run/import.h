/// First weights from a checkpoint of the released layout: the values that its codes stand for, as float32
/// masters.
#pragma once

#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/parameters.h"

namespace baleen {

/// Fills `weights` from the checkpoint `config.run.from`: FP4 and FP8 times their scales, BF16 and F32 as
/// they are. Throws `Error`: no such checkpoint, tensors of other shapes than `config.model` has, with the
/// first of them, scales that are NaN, values that are not finite. Holds nothing but `weights`; the files are
/// mapped.
void import_weights(const TrainConfig& config, Parameters<float>& weights, ThreadPool& pool);

/// The tables of experts of `config.run.from`, or new ones by the run's seed where there is no such
/// checkpoint; n-grams by the tokenizer of the data. Throws `Error` as above, for ids that are no experts,
/// and for a tokenizer whose compressed vocabulary has another size than the model's.
[[nodiscard]] TokenTables token_tables_of(const TrainConfig& config);

}  // namespace baleen
