/// A table of sequences without a model: a pretended forward pass writes into every cache row what the tokens
/// up to it hash to, and reads, before every step, all the rows that a real one would. So a page that is
/// shared too early, freed too early, written by two, or lost, shows at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/sequence_table.h"

namespace baleen::test {

inline constexpr std::int64_t kWindow = 128;
inline constexpr std::int64_t kDrafts = 3;

inline CacheGeometry geometry(bool shares_prefixes = true) {
  return {.blocks = {{.ratio = 4, .overlaps = true, .has_index_keys = true}},
          .latent = {64, 64, Precision::kReleased},
          .index_key = {128, Precision::kReleased},
          .window_tokens = kWindow,
          .max_draft_tokens = kDrafts,
          .shares_prefixes = shares_prefixes};
}

/// hash[t]: of tokens 0..t; exact in a float.
inline std::vector<float> prefix_hashes(std::span<const TokenId> tokens) {
  std::vector<float> hashes;
  std::uint64_t state = 1469598103934665603ULL;
  for (const TokenId token : tokens) {
    state = (state ^ static_cast<std::uint64_t>(token + 1)) * 1099511628211ULL;
    hashes.push_back(static_cast<float>(state >> 44));
  }
  return hashes;
}

class PretendedModel {
 public:
  explicit PretendedModel(const KvCache& cache) : cache_(cache) {}

  /// Whether the rows that the next step of `slice` reads are those of the tokens before it.
  [[nodiscard]] bool sees(const SequenceSlice& slice, std::span<const TokenId> tokens) const {
    const std::vector<float> hashes = prefix_hashes(tokens);
    const auto hash = [&](std::int64_t position) { return hashes[static_cast<std::size_t>(position)]; };
    const std::int64_t length = slice.start;
    for (std::int64_t entry = 0; entry < length / 4; ++entry) {
      if (*entry_of(slice, entry) != hash(4 * entry + 3)) return false;
    }
    for (std::int64_t t = std::max(first_exact_row(slice), length - kWindow); t < length; ++t) {
      if (*window_row(slice, t) != hash(t)) return false;
    }
    for (std::int64_t t = std::max(slice.window_begin, length / 4 * 4 - 4); t < length; ++t) {
      if (cache_.main_state(0).kv_row(slice.state_slot, t)[0] != hash(t)) return false;
      if (cache_.index_state(0).gate_row(slice.state_slot, t)[0] != hash(t)) return false;
    }
    return true;
  }

  void step(const SequenceSlice& slice, std::span<const TokenId> all_tokens) {
    const std::vector<float> hashes = prefix_hashes(all_tokens);
    for (std::int64_t t = slice.start; t < slice.start + slice.num_tokens; ++t) {
      const float hash = hashes[static_cast<std::size_t>(t)];
      *window_row(slice, t) = t < first_exact_row(slice) ? -1.0F : hash;
      if (t % 4 == 3 && t >= slice.entries_until) *entry_of(slice, t / 4) = hash;
      cache_.main_state(0).kv_row(slice.state_slot, t)[0] = hash;
      cache_.index_state(0).gate_row(slice.state_slot, t)[0] = hash;
      if (t % kPageTokens < kPageTokens - kOverlapRows) continue;
      const PageId page = slice.window_pages[static_cast<std::size_t>(t / kPageTokens)];
      cache_.main_overlap(0).kv_row(page, t)[0] = hash;
      cache_.index_overlap(0).gate_row(page, t)[0] = hash;
    }
  }

 private:
  /// A replay makes the last window's rows right, and earlier ones wrong.
  [[nodiscard]] static std::int64_t first_exact_row(const SequenceSlice& slice) {
    return std::max<std::int64_t>(0, slice.entries_until - kWindow);
  }
  [[nodiscard]] static float* row(const LatentPool& pool, PageId page, std::int64_t row) {
    return reinterpret_cast<float*>(pool.page(static_cast<std::int64_t>(page))) + row;
  }
  [[nodiscard]] float* window_row(const SequenceSlice& slice, std::int64_t t) const {
    return row(cache_.window(0), slice.window_pages[static_cast<std::size_t>(t / kPageTokens)],
               t % kPageTokens);
  }
  [[nodiscard]] float* entry_of(const SequenceSlice& slice, std::int64_t entry) const {
    return row(cache_.compressed(0), slice.pages[static_cast<std::size_t>(entry / 64)], entry % 64);
  }

  const KvCache& cache_;
};

/// A table, its cache, and steps that are checked.
struct World {
  explicit World(CacheCapacity capacity, bool shares_prefixes = true, std::int64_t reserved_tails = 0,
                 DiskTier* disk = nullptr)
      : cache(geometry(shares_prefixes), capacity), table(cache, reserved_tails), model(cache) {
    if (disk != nullptr) table.attach(*disk);
  }

  /// The next tokens of a sequence; false when there is no room.
  [[nodiscard]] bool step(SequenceId id, std::span<const TokenId> tokens) {
    if (!table.reserve(id, static_cast<std::int64_t>(tokens.size()))) return false;
    const SequenceSlice slice = table.slice(id, 0, static_cast<std::int64_t>(tokens.size()));
    EXPECT_TRUE(model.sees(slice, table.tokens(id))) << "at " << table.length(id);
    std::vector<TokenId> all(table.tokens(id).begin(), table.tokens(id).end());
    all.insert(all.end(), tokens.begin(), tokens.end());
    model.step(slice, all);
    table.commit(id, tokens);
    return true;
  }
  /// All of `tokens` that the sequence has not seen, in chunks; shares after each, or after the last.
  void feed(SequenceId id, std::span<const TokenId> tokens, std::size_t chunk = 200,
            bool share_chunks = true) {
    for (auto at = static_cast<std::size_t>(table.length(id)); at < tokens.size(); at += chunk) {
      ASSERT_TRUE(step(id, tokens.subspan(at, std::min(chunk, tokens.size() - at))));
      if (share_chunks || at + chunk >= tokens.size()) table.share(id);
      table.check_integrity();
    }
  }
  std::int64_t found(std::span<const TokenId> prompt) {
    const SequenceId id = *table.open(prompt);
    const std::int64_t length = table.length(id);
    EXPECT_TRUE(model.sees(table.slice(id, 0, 0), table.tokens(id)));
    table.close(id, false);
    return length;
  }

  KvCache cache;
  SequenceTable table;
  PretendedModel model;
};

inline std::vector<TokenId> drawn_tokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 1000);
  return tokens;
}

}  // namespace baleen::test
