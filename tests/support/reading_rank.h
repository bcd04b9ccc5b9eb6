/// One rank's forward pass over sequences that every test of ranks reads: a prompt each, then a token each.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "device/make_device.h"
#include "forward/forward.h"
#include "kv_cache/sequence_pages.h"
#include "model/cache_geometry.h"
#include "tensor/buffer.h"

namespace baleen::test {

using Logits =
    std::vector<std::vector<float>>;  ///< of each sequence, rows of its positions one after the other

struct Reading {
  std::vector<std::int64_t> prompts;  ///< lengths
  std::int64_t more_steps = 1;        ///< of a token of each sequence
  [[nodiscard]] static TokenId token(std::int64_t sequence, std::int64_t position,
                                     const ModelConfig& config) {
    return static_cast<TokenId>((sequence * 131 + position * 37 + 11) % config.vocab_size);
  }
};

inline constexpr std::int64_t kMaxReadingRows = 1024;

/// Of a device that reads.
[[nodiscard]] inline std::int64_t reading_scratch(const RankConfig& rank, const DeviceTraits& traits) {
  return scratch_bytes(traits, step_shape(rank, 8 * kMaxReadingRows, kMaxReadingRows, 8, 1024));
}

/// With its cache and buffers.
class ReadingRank {
 public:
  /// All outlive this; `weights` are the rank's.
  ReadingRank(const RankConfig& rank, const WeightTree& weights, Device& device, const RankLayout& layout,
              Precision precision)
      : config_(rank.model()),
        layout_(layout),
        device_(device),
        cache_(cache_geometry(rank, precision), {16, 16, 8}, device.memory()),
        arena_(forward_buffer_bytes(rank, kMaxReadingRows, device.traits().activation_type), device.memory()),
        logits_(kMaxReadingRows * config_.vocab_size * std::int64_t{sizeof(float)}, device.memory()),
        all_streams_(kMaxReadingRows * config_.hc_dim() * std::int64_t{sizeof(float)}, device.memory()),
        forward_(rank, weights, device, cache_, precision, kMaxReadingRows, arena_, layout) {
    // Whatever has two rows on some rank.
    if (layout.plan().dual_batch_overlap)
      forward_.overlap_batches({.least_prompt_rows = 2, .least_decode_rows = 2});
  }

  /// Steps of up to `num_rows` rows are replayed from then on.
  void capture(std::int64_t num_rows) {
    for (std::int64_t rows = 1; rows <= num_rows; rows *= 2) forward_.capture(rows);
  }

  /// Logits of the sequences of this rank's group; nothing for others, and nothing before the last stage.
  Logits read(const Reading& reading) {
    Logits logits(reading.prompts.size());
    std::vector<std::int64_t> own;
    for (std::int64_t s = 0; s < std::ssize(reading.prompts); ++s) {
      if (s % layout_.plan().dp != layout_.dp_index()) continue;
      own.push_back(s);
      pages_.emplace_back(cache_);
    }
    std::vector<std::int64_t> lengths(own.size(), 0);
    for (std::int64_t step = 0; step <= reading.more_steps; ++step) {
      std::vector<std::int64_t> counts;
      for (const std::int64_t s : own)
        counts.push_back(step == 0 ? reading.prompts[static_cast<std::size_t>(s)] : 1);
      run_step(own, lengths, counts, logits);
    }
    return logits;
  }

 private:
  void run_step(const std::vector<std::int64_t>& own, std::vector<std::int64_t>& lengths,
                const std::vector<std::int64_t>& counts, Logits& logits) {
    std::vector<TokenId> tokens;
    std::vector<SequenceSlice> slices;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!pages_[i].reach(lengths[i] + counts[i])) fail("no pages");
      slices.push_back({.first_row = std::ssize(tokens),
                        .num_tokens = counts[i],
                        .start = lengths[i],
                        .pages = pages_[i].pages(),
                        .window_pages = pages_[i].window_pages(),
                        .state_slot = pages_[i].state_slot()});
      for (std::int64_t t = 0; t < counts[i]; ++t)
        tokens.push_back(Reading::token(own[i], lengths[i] + t, config_));
      lengths[i] += counts[i];
    }
    const Activations<3> streams = forward_.run({.tokens = tokens, .slices = slices});
    if (!layout_.stage().last) return device_.synchronise();
    const auto num_rows = std::ssize(tokens);
    ConstActivations<3> all = streams;
    if (layout_.plan().shares_rows()) {
      all = forward_.gathered(streams, {all_streams_.data(),
                                        device_.traits().activation_type,
                                        {kMaxReadingRows, config_.hc_mult, config_.hidden_size}});
    }
    const RowRange kept = layout_.kept(num_rows);
    forward_.logits(all.slice(kept.begin, kept.end), {},
                    {logits_.data(), ElementType::kF32, {num_rows, config_.vocab_size}});
    device_.synchronise();
    std::vector<float> out(static_cast<std::size_t>(num_rows * config_.vocab_size));
    device_.memory().download(std::as_writable_bytes(std::span(out)), logits_.data());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto begin = out.begin() + slices[i].first_row * config_.vocab_size;
      std::vector<float>& to = logits[static_cast<std::size_t>(own[i])];
      to.insert(to.end(), begin, begin + counts[i] * config_.vocab_size);
    }
  }

  const ModelConfig& config_;
  RankLayout layout_;
  Device& device_;
  KvCache cache_;
  Arena arena_;
  Buffer logits_;
  Buffer all_streams_;  ///< of all rows, where ranks share them out
  Forward forward_;
  std::vector<SequencePages> pages_;
};

}  // namespace baleen::test
