/// The attention of one layer as a value: all that cache, weights, operations, inspection and simulation need
/// to know of it. Computed from the config here and nowhere else.
///
///     ratio r = 0   a query sees the raw rows of its window alone
///     r > 0         also entries, each of r positions; entry j is complete with position r (j + 1) - 1
///     entry_form    how an entry is made of its positions: pooled with a bias for each place, a latent by
///                   a projection of its own, or a position's own row
///     overlaps      an entry pools the r positions before its own as well, through separate columns
///     indexed       an indexer scores all entries, and a query sees the top_k best; otherwise all of them
///     key_source    the entries and index keys are those of an earlier layer
///     index_source  the selection is that of an earlier layer
///     candidates    the selection is made among blocks of entries that one layer has chosen
///
/// V4's layers are rows (0), (4, overlaps, indexed) and (128). V4.1's have ratio 0, 2 or 1 with latents, and
/// keys, selection and candidates of the layers that its config names.
/// (source: forward-pass specification 4; releases specification 2.5, 9.C)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kv_cache/geometry.h"
#include "numeric/grouped_row.h"
#include "numeric/latent_row.h"

namespace baleen {

struct ModelConfig;

/// What a layer's attention sees beside its window.
enum class LayerKind : std::uint8_t {
  kSlidingWindow,  ///< nothing
  kCsa,            ///< entries that an indexer selects
  kHca,            ///< all entries
  kReindexed,      ///< entries of an earlier layer, of which its own indexer selects
  kReused          ///< entries of an earlier layer by the selection of one
};

/// "sliding window", "CSA", "HCA", "CSA reindexed", "CSA reused"
[[nodiscard]] std::string_view layer_kind_name(LayerKind kind);

/// How an entry is made of its positions.
enum class EntryForm : std::uint8_t {
  kPooled,  ///< gates and a bias for each place weigh positions; the indexer has its own compressor
  kLatent,  ///< a latent, at ratio 2 two by gates without biases; the index key is made of it
  kOwnRow   ///< the position's row itself, ratio 1
};

/// Blocks of entries among which layers select: where they are chosen, and how many of what size.
struct CandidateBlocks {
  std::int64_t source = 0;  ///< layer that chooses them; its own selection is among all entries
  std::int64_t count = 0;
  std::int64_t block_size = 0;  ///< entries

  bool operator==(const CandidateBlocks&) const = default;
};

/// Which frequencies rotate queries, keys and outputs.
enum class RopeKind : std::uint8_t { kPlain, kScaled };
inline constexpr int kNumRopeKinds = 2;

struct LayerAttention {
  std::int64_t window_tokens = 0;  ///< raw rows that a query sees, its own included; 0: none
  std::int64_t ratio = 0;
  EntryForm entry_form = EntryForm::kPooled;  ///< where there are entries
  bool overlaps = false;
  bool indexed = false;
  std::int64_t top_k = 0;  ///< where indexed
  /// The layer whose entries and index keys it reads, and the one whose selection; nothing: its own.
  std::optional<std::int64_t> key_source, index_source;
  std::optional<CandidateBlocks> candidates;  ///< the layer chooses or uses them

  std::int64_t num_heads = 0, head_dim = 0;
  std::int64_t rope_dim = 0;                    ///< the last dims of a head and of an indexer key
  std::int64_t index_heads = 0, index_dim = 0;  ///< where indexed
  LatentLayout layout = LatentLayout::kV4;
  /// Rows in released precision that have scales over all of their values instead: of positions, of entries.
  std::optional<GroupedRow> window_row, entry_row;
  RopeKind rope = RopeKind::kPlain;
  bool norms_queries = true;  ///< each head's, before its rotation

  [[nodiscard]] bool has_entries() const { return ratio != 0; }
  /// The layer, `block` itself or an earlier one, whose entries and index keys `block` reads.
  [[nodiscard]] std::int64_t entries_of(std::int64_t block) const { return key_source.value_or(block); }
  /// Whether it makes entries, which it and later layers read.
  [[nodiscard]] bool makes_entries() const { return has_entries() && !key_source; }
  /// Whether an indexer of its own selects.
  [[nodiscard]] bool selects() const { return indexed && !index_source; }
  [[nodiscard]] LayerKind kind() const {
    if (!has_entries()) return LayerKind::kSlidingWindow;
    if (!indexed) return LayerKind::kHca;
    return index_source ? LayerKind::kReused : key_source ? LayerKind::kReindexed : LayerKind::kCsa;
  }
  /// Whether it pools entries of several positions, and so a compressor has weights and rings.
  [[nodiscard]] bool compresses() const { return ratio > 1 && makes_entries(); }
  /// Whether it pools index keys by themselves, not of its entries.
  [[nodiscard]] bool pools_keys() const {
    return compresses() && indexed && entry_form == EntryForm::kPooled;
  }
  /// Columns of a compressor whose entries are `width` wide.
  [[nodiscard]] std::int64_t compressor_columns(std::int64_t width) const {
    return overlaps ? 2 * width : width;
  }
  /// Entries of a sequence of `num_positions`.
  [[nodiscard]] std::int64_t num_entries(std::int64_t num_positions) const {
    return has_entries() ? num_positions / ratio : 0;
  }
  /// What the block keeps in the cache beside its window rows.
  [[nodiscard]] BlockCache cache() const {
    if (!makes_entries()) return {};
    return {static_cast<int>(ratio), overlaps, indexed, entry_form == EntryForm::kLatent};
  }

  bool operator==(const LayerAttention&) const = default;
};

/// Of a layer or a draft head's block; any ratio of the config has a shape, whether it can be run or not.
[[nodiscard]] LayerAttention attention_of(const ModelConfig& config, std::int64_t block);

/// A sentence for a shape that the operations do not have; empty for one that can be run.
[[nodiscard]] std::string why_not_runnable(const LayerAttention& shape);

}  // namespace baleen
