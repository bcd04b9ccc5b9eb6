/// Rows from one rank to one other: streams between the stages of a pipeline. `receive` is the other end of
/// `send`.
#pragma once

#include "ops/collectives/collective.h"

namespace baleen {

struct SendArgs {
  const RankGroup* pair = nullptr;  ///< this rank and the one that receives
  /// Ranks that the whole service has: the link that joins any two of them carries it.
  std::int64_t num_ranks = 2;
  ConstActivations<3> x;  ///< dense
};

struct ReceiveArgs {
  const RankGroup* pair = nullptr;  ///< this rank and the one that sends
  Activations<3> y;                 ///< dense, of the sender's type and extents
};

namespace ops {

struct Send {
  using Args = SendArgs;
  static constexpr std::string_view kName = "send";
  [[nodiscard]] static OpCost cost(const SendArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const SendArgs& args) { return {.num_rows = args.x.extent(0)}; }
  static void accesses(const SendArgs& args, Accesses& to);
  [[nodiscard]] static std::vector<RankMessage> messages(const SendArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Send>> cpu_variants();
};

/// Its message is the sender's.
struct Receive {
  using Args = ReceiveArgs;
  static constexpr std::string_view kName = "receive";
  [[nodiscard]] static OpCost cost(const ReceiveArgs& /*args*/) { return {}; }
  [[nodiscard]] static CallShape shape(const ReceiveArgs& args) { return {.num_rows = args.y.extent(0)}; }
  static void accesses(const ReceiveArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<Receive>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
