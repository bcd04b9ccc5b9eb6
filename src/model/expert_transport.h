/// How activations get to the experts of other ranks and their outputs back: every way there is, what it
/// declares of itself, and which of them a plan takes.              (source: parallel MoE 2 to 4, 6)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/dispatch/dispatch.h"
#include "ops/operation/device_traits.h"
#include "ops/operation/variant.h"

namespace baleen {

struct ParallelPlan;

enum class ExpertTransport : std::uint8_t {
  kAutomatic,  ///< no choice: the first that serves
  kNone,
  kAllReduce,
  kAllToAll,
  kPeerMemory,
  kFused,
  kAllGather,
  kReduceScatter,
  kNccl
};

/// What a transport says of itself. The forward pass reads `way`, `adds_sums` and `fuses`; the rest decides
/// whether it serves. None limits the tokens of a step: the ranks' buffers are as large as their largest step
/// wants.
struct ExpertTransportTraits {
  ExpertTransport transport = ExpertTransport::kAutomatic;
  std::string_view name;   ///< what sentences and options call it
  std::string_view moves;  ///< a clause for people
  /// How rows get to experts; none: nothing is dispatched, because every rank has all tokens.
  std::optional<DispatchWay> way = std::nullopt;
  /// Ranks add float32 sums of their own experts, in ascending rank, and round once: the result is reduced
  /// over ranks. Otherwise experts' outputs return one by one and the owner of a token adds them in ascending
  /// logical id: the bits of one rank, wherever experts lie.
  bool adds_sums = false;
  /// Dispatch, experts and combine are given to the device as one sequence. Steps that it has no kernels for,
  /// above a number of tokens or between ranks that share a GPU, it does one after the other, as kPeerMemory.
  bool fuses = false;
  /// Ranks of a stage up to which it was measured to be quicker than those behind it: 8 to 31% on two H100s
  /// (bench/results/fused-experts-h100-x2.csv). With more a plan takes it by its name alone. 0: no limit.
  std::int64_t max_ranks_by_itself = 0;
  bool for_one_rank = false;       ///< a stage of one rank, and no other
  bool needs_same_tokens = false;  ///< on all ranks of a stage
  std::string_view activations;    ///< the format in which they are sent; empty: they are not
  bool capturable = false;         ///< a captured step can have it: sizes do not depend on the routing
  Reason why_not_on_cpu{};         ///< empty: ranks whose messages go through the host have it
  Reason why_not_on_gpu{};         ///< empty: ranks whose messages go by kernels have it

  /// The bits of one rank, as far as this transport decides them: for any number of ranks, any placement.
  [[nodiscard]] bool keeps_bits() const { return !adds_sums; }
};

/// All of them, in the order in which they are tried: what moves nothing, then sums of ranks that have the
/// same tokens, then what sends assignments (CPUs, GPUs: all at once, one operation after the other), then
/// what sends everything everywhere, which a plan takes by its name alone.
[[nodiscard]] std::span<const ExpertTransportTraits> expert_transports();
[[nodiscard]] const ExpertTransportTraits& traits_of(ExpertTransport transport);

/// Why a resolved plan cannot have `transport`, whatever the device; its own choice of another is no reason.
[[nodiscard]] std::optional<Reason> why_not(const ExpertTransportTraits& transport, const ParallelPlan& plan);
/// Why ranks on such a device cannot have it, for any plan.
[[nodiscard]] std::optional<Reason> why_not(const ExpertTransportTraits& transport,
                                            const DeviceTraits& device);

/// What a resolved plan takes: the one that it names, or the first that serves it. On which device does not
/// change what moves, only who moves it.
[[nodiscard]] const ExpertTransportTraits& expert_transport(const ParallelPlan& plan);
/// The same on a device: its own form of what the plan takes.
[[nodiscard]] const ExpertTransportTraits& expert_transport(const ParallelPlan& plan,
                                                            const DeviceTraits& device);

/// The sentence about the transport that a resolved plan names, where it cannot have it on any device, or not
/// on `device`, with those that it can; none: it names none, or it can.
[[nodiscard]] std::optional<std::string> transport_violation(const ParallelPlan& plan);
[[nodiscard]] std::optional<std::string> transport_violation(const ParallelPlan& plan,
                                                             const DeviceTraits& device);

}  // namespace baleen
