#include "model/decoder_half.h"

#include <fmt/format.h>

#include "model/layer_attention.h"

namespace baleen {

Result<std::int64_t> decoder_begin(const ModelConfig& config) {
  if (!config.streams)
    return failure(
        "every layer makes entries of its own; only layers that read earlier ones' can be left out");
  const std::int64_t begin = config.streams->kv_source_layer_ids.back();
  for (std::int64_t layer = begin; layer < config.num_hidden_layers; ++layer) {
    const LayerAttention shape = attention_of(config, layer);
    if (!shape.has_entries() || shape.entries_of(layer) != begin)
      return failure("layer {} does not read the entries of layer {}, the last that makes some", layer,
                     begin);
    if (layer > begin && config.engram_table(layer))
      return failure("layer {} has a table of n-grams; such are expected up to layer {}", layer, begin);
  }
  for (const std::int64_t layer : config.dspark.target_layer_ids) {
    if (layer < begin)
      return failure("the draft head reads layer {}; expected layers from {} on", layer, begin);
  }
  return begin;
}

std::optional<std::string> bounded_replay_violation(const ModelConfig& config, std::int64_t tokens) {
  if (const Result<std::int64_t> begin = decoder_begin(config); !begin)
    return fmt::format("‹bounded replay›: this model has no decoder half: {}; leave it out", begin.error());
  if (tokens < config.sliding_window) {
    return fmt::format(
        "‹bounded replay› {}: the tokens behind a prompt see a window of {}; expected at least as many",
        tokens, config.sliding_window);
  }
  return std::nullopt;
}

}  // namespace baleen
