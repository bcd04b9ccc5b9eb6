/// A step as two micro-batches: one computes while the messages of the other are under way.
/// (source: parallel MoE 7.2)
///
///     computing   attention 0 │ attention 1 │ experts 0 │ experts 1 │ attention 0 │ attention 1 │ ...
///     messages                  dispatch 0    dispatch 1  combine 0   combine 1     dispatch 0
///
/// Both compute on one queue, micro-batch 0 first: a sequence that is cut finds what its first part wrote to
/// the cache. All ranks send the same messages in the same order, whatever their rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "forward/attention.h"
#include "forward/batch_overlap.h"
#include "forward/mixture_of_experts.h"
#include "forward/pass.h"
#include "forward/residual_streams.h"

namespace baleen {

class Overlap {
 public:
  /// Runs two passes over the same parts, which outlive it: micro-batch 1 has the second half of the rows of
  /// their arrays, whose number is one of `rows_of_two_batches`.
  Overlap(const PassContext& context, ResidualStreams& streams, Attention& attention,
          MixtureOfExperts& experts, const BatchOverlap& when);

  /// Whether a step of the main layers over `batch`, which the device has not begun, is to be cut: the same
  /// on all ranks, which ask together.
  [[nodiscard]] bool cuts(const RaggedBatch& batch);
  /// Such a step: the streams [T, n, d] after the last layer. `chosen`: as StepBatches::begin has it.
  [[nodiscard]] Activations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen);
  /// Prepares steps of `num_rows` rows, where they are cut.
  void capture(std::int64_t num_rows);

 private:
  /// `adjoin`: the second part's streams follow the first one's; else they begin where those of a draft head
  /// do.
  void run_parts(const std::array<Step, 2>& steps, bool adjoin);

  PassContext context_;
  ResidualStreams& streams_;
  Attention& attention_;
  MixtureOfExperts& experts_;
  BatchOverlap when_;
  std::array<std::vector<SequenceSlice>, 2> slices_;  ///< the micro-batches' own
};

}  // namespace baleen
