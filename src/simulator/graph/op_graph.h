/// A step of one rank as the sequence of operations that it runs, each with what it costs by its contract,
/// and of the messages between ranks that the plan needs.            (source: simulation 2, 4; design 3)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/operation/operation_sequence.h"
#include "simulator/graph/rank_model.h"
#include "simulator/graph/workload.h"

namespace baleen {

/// Parts of a step that are timed and shown apart. kFollow: the draft head sees the step's rows.
enum class GraphPart : std::uint8_t { kLayers, kHead, kFollow, kDraft };

/// One call of an operation or, with a group of more than one, a message.
struct GraphOp {
  std::string_view name;    ///< as `Device` calls it: "linear", "experts", "all_reduce"
  std::string detail;       ///< which one, or its arguments' shapes: "wq_a wkv [4096 x 4096 -> 1536]"
  std::int64_t block = -1;  ///< layer or block of a draft head; -1: none
  GraphPart part = GraphPart::kLayers;
  double num_rows = 0;  ///< tokens that it works on: how well a kernel does depends on it
  /// Kernels that do it where nothing is fused: an operation on several weights has one for each.
  int num_kernels = 1;
  double num_heads = 0;  ///< that attention works on; 0: no heads
  /// Of the variant that a device would choose; none: it has no prediction, or none is made.
  std::optional<double> predicted_seconds{};
  OpCost cost;               ///< what an operation costs
  OpCost backward;           ///< what its backward costs; nothing where it has none
  RankMessage message;       ///< between ranks
  std::string_view sent_by;  ///< the operation whose message it is: "dispatch"
  RankMessage backward_message;

  [[nodiscard]] bool is_collective() const { return message.group_size > 1; }
};

struct OpGraph {
  std::vector<GraphOp> ops;
  std::int64_t num_rows = 0;  ///< tokens of the rank's own requests
  std::int64_t num_logit_rows = 0;

  [[nodiscard]] OpCost total_cost() const;
};

/// How a device runs the forward pass.
struct GraphOptions {
  ElementType activations = ElementType::kBf16;
  /// Runs norms, rotations and the mixing between half-blocks as the GPU of this program does.
  bool fuses = true;
  /// How many of a block's experts the step activates, where that is known: recorded ids. Otherwise as many
  /// as routing without preferences would.
  std::function<double(std::int64_t block)> active_experts = nullptr;
  /// Seconds that the chosen variant of a call, an operation or a fusion, is predicted to take; null, or
  /// none: not known.
  std::function<std::optional<double>(const OperationSequence& sequence, const void* const* args)> predict =
      nullptr;
};

/// Runs the engine's forward pass over `batch` on a device that only writes down what it is asked. `workload`
/// tells of drafts and of how unevenly tokens go to experts; every data-parallel group is taken to have a
/// batch like this one. The rank is the first of its stage, which has as many rows as any.
[[nodiscard]] OpGraph record_step(const RankModel& model, const RankBatch& batch, const Workload& workload,
                                  const GraphOptions& options);

}  // namespace baleen
