/// What a plan changes of the operations that a rank runs: which rows and groups of heads it sees, which token-expert
/// assignments reach its experts, and the messages between ranks. These rules belong to the forward pass and will go there with
/// the collectives; until then they are kept apart from the recorder, which knows no operation.
#pragma once

#include <any>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/operations.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

/// An operation as a rank runs it.
struct RankCall {
  const OperationInfo* operation = nullptr;
  const void* args = nullptr;  ///< over what the rank has
  bool is_elsewhere = false;   ///< the rank does not run it
  std::vector<Collective> before{}, after{};
  // Where they are not what the operation says of `args`.
  std::optional<std::string> detail{};
  std::optional<std::int64_t> num_rows{};
  std::optional<OpCost> cost{};
};

class RankRules {
 public:
  RankRules(const RankModel& model, const Workload& workload, const GraphOptions& options);

  /// Arguments are those of one rank's forward pass without any splitting of tokens. What is returned is valid until the next
  /// call. An operation without a rule is what it is.
  [[nodiscard]] std::vector<RankCall> of_rank(const OperationSequence& sequence, const void* const* args);

  /// That the last matrix belonged to; -1: none.
  [[nodiscard]] std::int64_t block() const { return block_; }

 private:
  using Rule = std::function<void(const void* args, RankCall& call)>;

  /// `rule` is a member function of (const Op::Args&, RankCall&).
  template <class Op>
  void add_rule(void (RankRules::*rule)(const typename Op::Args& args, RankCall& call));
  /// Keeps `args` until the next call of `of_rank`.
  template <class Args>
  const void* keep(const Args& args);

  void embed(const EmbedArgs& args, RankCall& call);
  void hc_pre(const HcPreArgs& args, RankCall& call);
  void hc_post(const HcPostArgs& args, RankCall& call);
  void hc_head(const HcHeadArgs& args, RankCall& call);
  void rms_norm(const RmsNormArgs& args, RankCall& call);
  void linear(const LinearArgs& args, RankCall& call);
  void grouped_linear(const GroupedLinearArgs& args, RankCall& call);
  void route(const RouteArgs& args, RankCall& call);
  void experts(const ExpertsArgs& args, RankCall& call);
  void lm_head(const LmHeadArgs& args, RankCall& call);

  /// The output projection's second half, with rows and groups as o_proj_tp has them.
  void project_output(const LinearArgs& args, RankCall& call);
  void messages_before_experts(std::int64_t num_rows, RankCall& call) const;
  void messages_after_experts(std::int64_t num_rows, RankCall& call) const;
  /// Those of `rows` that a rank keeps between attention and attention.
  [[nodiscard]] std::int64_t kept(std::int64_t rows) const;
  /// Rows of the output projection: with more ranks than heads are split over, also those of other groups.
  [[nodiscard]] std::int64_t output_rows(std::int64_t num_rows) const;

  const RankModel& model_;
  const ParallelPlan& plan_;
  const Workload& workload_;
  GraphOptions options_;
  std::unordered_map<const OperationInfo*, Rule> rules_;
  const OperationSequence* sequence_ = nullptr;  ///< that the call belongs to
  const void* const* sequence_args_ = nullptr;
  std::deque<std::any> kept_;
  std::int64_t block_ = -1;
};

}  // namespace baleen
