/// A draft head: what guesses tokens of a sequence ahead, from what the main layers left of it.
///
/// An engine runs one over every step and asks it for drafts between steps; a step of the main layers then
/// checks them. So a head decides how many drafts are right, and never which text comes out.
///
///     main layers   positions 0 .. n - 1  ──► residual streams ──► `follow`: the head sees those positions
///     choice        token n               ──► `draft`, depth 0 ──► logits of token n + 1
///     draft         token n + 1           ──► `draft`, depth 1 ──► logits of token n + 2
///     ...
///
/// What a head keeps of a sequence lies in the cache's rows of its blocks, which prefix cache, disk and
/// transfers treat as those of any block, or in arrays of its own that a sequence loses with its state slot
/// (`carried` goes with it to other ranks).
///
/// A new head is a folder beside mtp/, a row in heads/, its fields in the config reader and its tensors in
/// the table (model/tensor_table.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "forward/forward.h"
#include "kv_cache/kv_cache.h"
#include "model/config.h"
#include "model/rank_config.h"
#include "model/rank_layout.h"
#include "model/weight_tree.h"
#include "numeric/dtype.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// What decides how much memory a head takes.
struct DraftSizes {
  std::int64_t max_rows = 0;  ///< limit of a step, padded as the device pads steps
  std::int64_t max_sequences = 0;
  std::int64_t max_draft_tokens = 0;     ///< for each step; 0: the head follows steps and drafts nothing
  ElementType type = ElementType::kF32;  ///< how activations are stored
};

/// What is known of a head before there are weights.
struct DraftTraits {
  std::int64_t buffer_bytes = 0;  ///< what arrays of its own take of the device's memory
  std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max();  ///< that it drafts for one step
  /// Positions behind a sequence's last one whose rows a draft may write at once, however few are wanted: 0
  /// where link i of a chain wants i of them.
  std::int64_t block_positions = 0;
  bool tells_confidence = false;  ///< `draft` says of each draft how likely it is accepted
};

/// What a head works with. All that it refers to outlives the head.
struct DraftParts {
  RankConfig rank;            ///< a stage before the last has no draft blocks
  const WeightTree& weights;  ///< the rank's
  Device& device;
  Forward& forward;
  KvCache& cache;
  const RankLayout& layout;
  Precision precision = Precision::kReleased;
  DraftSizes sizes;
  Arena& arena;  ///< has `DraftTraits::buffer_bytes` left
  // Lent while a call of the head lasts: what is in them before means nothing.
  Activations<2> all_streams;     ///< [max_rows, n d] where ranks share out rows; else empty
  Activations<2> wanted_streams;  ///< [rows of logits, n d]
};

/// One sequence's part of a step that is followed.
struct FollowedPart {
  /// The head has followed the position before the part's first one. Otherwise the sequence begins here, or
  /// behind a prefix that was found: rows of the head's blocks are there, arrays of its own say nothing.
  bool continues = false;
  bool wants_logits = false;
};

/// A step of the main layers.
struct FollowedStep {
  RaggedBatch batch;
  std::span<const FollowedPart> parts;  ///< one for each slice
  ConstActivations<3> streams;          ///< [rows, n, d] after the last layer, of all rows on every rank
  std::span<const TokenId> chosen;      ///< what tokens of the batch stand for (StepBatches::begin)
};

/// One token more of a sequence.
struct DraftRow {
  SequenceSlice sequence;  ///< has no tokens yet; `start` is the sequence's length
  TokenId token = 0;       ///< depth 0: the token at `start`; depth i: the draft of depth i - 1
};

/// Not thread-safe. Ranks call theirs together, those of other data-parallel groups with batches of their
/// own, which may be empty where `RankLayout` has more than one group.
class DraftHead {
 public:
  DraftHead() = default;
  DraftHead(const DraftHead&) = delete;
  DraftHead& operator=(const DraftHead&) = delete;
  virtual ~DraftHead() = default;

  /// Prepares what it runs over `num_rows` rows, as Forward::capture does.
  virtual void capture(std::int64_t num_rows) = 0;
  /// Sees a step. Of parts that want logits, writes those of the token after next of each position whose
  /// successor is known: from the one before the part's first, if that was followed, to the one before its
  /// last. Returns how many rows of `logits` it wrote; a head may have none of a step's own rows, ever.
  virtual std::int64_t follow(const FollowedStep& step, Activations<2> logits) = 0;
  /// Logits [rows, V] of the token after each row's. Depths come in order from 0 for a sequence, between two
  /// steps, and less than max_draft_tokens. A head may run all depths of a sequence at depth 0 and answer the
  /// later ones from that. Cache rows from the sequence's last position on may be written: the next step that
  /// is followed writes them again.
  /// confidence: [rows] in memory that device and host reach, or empty where no caller wants it. Heads that
  /// tell it write a logit of each draft, whose sigmoid is the chance that the draft is accepted if those
  /// before it are; the device has written it when `logits` are there. Others leave it alone.
  virtual void draft(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
                     Activations<2> logits, std::span<float> confidence) = 0;
  /// The work over every row of a batch, whatever the rows hold, and the logits of as many rows as `logits`
  /// has: what a step of training runs of the head. For those who price it.
  virtual void run_all(const RaggedBatch& batch, Activations<2> logits) = 0;
  /// A sequence has come to `end`; its pages up to there may soon be others' too. Rows of them that wait for
  /// a later token must not show what the page held before.
  virtual void clear_due_rows(const SequenceSlice& sequence, std::int64_t end) = 0;
  /// What goes with a sequence of `length` positions to a rank that takes it over, beside the cache's pools:
  /// pieces of equal size in the device's memory, each of one position.
  [[nodiscard]] virtual std::vector<std::span<std::byte>> carried(std::int32_t state_slot,
                                                                  std::int64_t length) const = 0;
};

/// A kind of head, and how one is made.
struct DraftHeadType {
  std::string_view name;   ///< a part of what pages are known by: a head decides bytes of its blocks' rows
  std::string_view title;  ///< what sentences call it: "MTP block"
  bool has_row_logits;     ///< `follow` gives logits of a step's own rows
  /// Whether a model, whole, has such a head.
  bool (*is_in)(const ModelConfig& config);
  DraftTraits (*traits)(const RankConfig& rank, const DraftSizes& sizes);
  std::unique_ptr<DraftHead> (*make)(const DraftParts& parts);
};

}  // namespace baleen
