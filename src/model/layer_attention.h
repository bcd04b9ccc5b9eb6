/// The attention of one layer as a value: all that cache, weights, operations, inspection and simulation need
/// to know of it. Computed from the config here and nowhere else.                        (source:
/// forward-pass specification 4)
///
///     ratio r = 0         a query sees the raw rows of its window alone
/// r > 0               also entries, each pooled from r positions; entry j is complete with position r (j +
/// 1) - 1
/// r = 1               an entry is a position's own row: attention over all positions, as DeepSeek-V3.2 has
///     overlaps            an entry pools the r positions before its own as well, through separate columns
/// indexed             an indexer scores all entries, and a query sees the top_k best; otherwise all of them
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kv_cache/geometry.h"
#include "numeric/latent_row.h"

namespace baleen {

struct ModelConfig;

/// What a layer's attention sees beside its window.
enum class LayerKind : std::uint8_t {
  kSlidingWindow,  ///< nothing
  kCsa,            ///< entries that an indexer selects
  kHca             ///< all entries
};

[[nodiscard]] std::string_view layer_kind_name(LayerKind kind);  ///< "sliding window", "CSA", "HCA"

/// Which frequencies rotate queries, keys and outputs.
enum class RopeKind : std::uint8_t { kPlain, kScaled };
inline constexpr int kNumRopeKinds = 2;

struct LayerAttention {
  std::int64_t window_tokens = 0;  ///< raw rows that a query sees, its own included; 0: none
  std::int64_t ratio = 0;
  bool overlaps = false;
  bool indexed = false;
  std::int64_t top_k = 0;  ///< where indexed

  std::int64_t num_heads = 0, head_dim = 0;
  std::int64_t rope_dim = 0;                    ///< the last dims of a head and of an indexer key
  std::int64_t index_heads = 0, index_dim = 0;  ///< where indexed
  LatentLayout layout = LatentLayout::kV4;
  RopeKind rope = RopeKind::kPlain;

  [[nodiscard]] bool has_entries() const { return ratio != 0; }
  [[nodiscard]] LayerKind kind() const {
    return !has_entries() ? LayerKind::kSlidingWindow : indexed ? LayerKind::kCsa : LayerKind::kHca;
  }
  /// Whether entries are pooled, and so a compressor has weights and rings.
  [[nodiscard]] bool compresses() const { return ratio > 1; }
  /// Columns of a compressor whose entries are `width` wide.
  [[nodiscard]] std::int64_t compressor_columns(std::int64_t width) const {
    return overlaps ? 2 * width : width;
  }
  /// Entries of a sequence of `num_positions`.
  [[nodiscard]] std::int64_t num_entries(std::int64_t num_positions) const {
    return has_entries() ? num_positions / ratio : 0;
  }
  /// What the block keeps in the cache beside its window rows.
  [[nodiscard]] BlockCache cache() const { return {static_cast<int>(ratio), overlaps, indexed}; }

  bool operator==(const LayerAttention&) const = default;
};

/// Of a layer or a draft head's block; any ratio of the config has a shape, whether it can be run or not.
[[nodiscard]] LayerAttention attention_of(const ModelConfig& config, std::int64_t block);

/// A sentence for a shape that the operations do not have; empty for one that can be run.
[[nodiscard]] std::string why_not_runnable(const LayerAttention& shape);

}  // namespace baleen
