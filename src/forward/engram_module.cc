#include "forward/engram_module.h"

#include <span>
#include <vector>

#include "ops/operations.h"

namespace baleen {

EngramArrays::EngramArrays(const RankConfig& rank, ActivationArrays& arrays) {
  const ModelConfig& config = rank.model();
  if (!config.engram) return;
  values = arrays.values(config.engram->num_hashes() * config.engram->head_dim);
  projected = arrays.values((config.hc_mult + 1) * config.hidden_size);
}

EngramModule::EngramModule(const PassContext& context, ActivationArrays& arrays)
    : context_(context), arrays_(context.rank, arrays) {}

void EngramModule::begin(const Step& step) const {
  if (store_ == nullptr) return;
  std::vector<EngramRun> runs;
  for (const SequenceSlice& slice : step.batch.slices) {
    runs.push_back({.before = slice.tokens_before,
                    .ids = step.batch.tokens.subspan(static_cast<std::size_t>(slice.first_row),
                                                     static_cast<std::size_t>(slice.num_tokens))});
  }
  store_->begin(runs);
}

EngramLookupArgs EngramModule::lookup(std::size_t table, const RowRange& own,
                                      const Activations<2>& values) const {
  if (store_ != nullptr) return store_->lookup(static_cast<std::int64_t>(table), own.begin, own.end, values);
  const EngramConfig& engram = *context_.config.engram;
  const std::int64_t num_rows = engram.num_embeddings[table];
  return {.rows = {nullptr, {own.size(), engram.num_hashes()}},
          .codes = {nullptr, {num_rows, engram.head_dim}},
          .scales = {nullptr, {num_rows, (engram.head_dim + kEngramScaleColumns - 1) / kEngramScaleColumns}},
          .z = values};
}

void EngramModule::run(std::int64_t block, const Pass& pass) const {
  const EngramWeights& weights = context_.weights.block(block).engram;
  const RowRange kept = pass.shares.kept();
  const Activations<2> values = rows(arrays_.values, kept.size()),
                       projected = rows(arrays_.projected, kept.size());
  const LinearOutput wkv{&weights.wkv, projected, false, "engram.wkv"};
  context_.device.execute<ops::EngramLookup>(lookup(*table_of(block), kept, values));
  context_.device.execute<ops::Linear>({.x = values, .outputs = {&wkv, 1}, .precision = context_.precision});
  context_.device.execute<ops::Engram>(
      {.tokens = pass.kept_tokens(),
       .image_token = static_cast<TokenId>(context_.config.engram->image_token_id),
       .projected = projected,
       .q_weight = weights.q_weight,
       .k_weight = weights.k_weight,
       .eps = context_.norm_eps(),
       .precision = context_.precision,
       .streams = pass.streams});
}

}  // namespace baleen
