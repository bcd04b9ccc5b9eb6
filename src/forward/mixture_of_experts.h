/// The experts of a block, on one rank and over ranks by each transport (model/expert_transport): router,
/// routed experts wherever they lie, the shared expert, and the combination of their outputs.
/// (source: forward pass 6, parallel MoE 2 to 6)
///
///     one rank       gate, route, experts
///     all_reduce     gate, route, experts of this rank for all tokens, sums over ranks
///     gathered       gate, route, dispatch of all tokens to all ranks, experts, sums to their owners
///     exchanged      gate, route, dispatch of assignments, shared expert, routed experts, combine
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "forward/expert_messages.h"
#include "forward/pass.h"
#include "forward/residual_streams.h"
#include "forward/router.h"
#include "moe/residence/expert_store.h"
#include "ops/dispatch/combine.h"
#include "ops/dispatch/dispatch.h"
#include "ops/experts/experts.h"

namespace baleen {

/// What the experts of `block` are expected to get where the data-parallel group's batch has `num_rows`, for
/// a device that does not see the routing.
using ExpectedLoad = std::function<ExpertLoad(std::int64_t block, std::int64_t num_rows)>;

class MixtureOfExperts {
 public:
  /// `sums`: [expert_sum_rows, d] float32 at least, lent while `run` lasts; its rows may be in use elsewhere
  /// before and after.
  MixtureOfExperts(const PassContext& context, ActivationArrays& arrays, MessageArrays& messages,
                   const Activations<2>& sums);

  /// From now on second micro-batches have the rows from `first` on, a multiple of kScaleRows.
  void cut(std::int64_t first);
  /// Where experts of layers lie in two memories; null: in one.
  void set_store(ExpertStore* store) { store_ = store; }
  void set_sums(ExpertSums sums) { expert_sums_ = sums; }
  void expect_load(ExpectedLoad expected) { expected_load_ = std::move(expected); }
  [[nodiscard]] const Router& router() const { return router_; }

  /// Before the first block of a pass.
  void begin(const Pass& pass);
  /// half.f of half.u, the K rows that the rank keeps: the weighted sum of the chosen experts' outputs, and
  /// the shared expert's. The bits are those of one rank where the transport keeps them.
  void run(std::int64_t block, const Pass& pass, const HalfBlock& half);

  /// Tokens that go to experts of other ranks.
  struct Exchange {
    ExpertsArgs call;  ///< has this rank's rows
    ExpertRanks placement;
  };
  // The same in three phases, of a transport that exchanges assignments and of experts in one memory.
  // Messages are posted under the number of the pass's micro-batch.
  [[nodiscard]] Exchange post_dispatch(std::int64_t block, const Pass& pass, const HalfBlock& half);
  void post_combine(const Exchange& exchange, const Pass& pass);
  void join(const Pass& pass);

 private:
  /// Null where the pass's experts lie in one memory.
  [[nodiscard]] ExpertStore* store_of(const Pass& pass) const {
    return store_ != nullptr && store_->has(pass.begin) ? store_ : nullptr;
  }
  [[nodiscard]] bool copies_for(const Pass& pass, const ExpertStore* store) const {
    return store != nullptr && store->copies_for(pass.num_rows());
  }
  /// Routes; what the experts are called with, as if all were this rank's.
  [[nodiscard]] ExpertsArgs choose(std::int64_t block, const Pass& pass, const HalfBlock& half,
                                   ExpertStore* store);
  /// Where the block's experts lie; `call` gets this rank's.
  [[nodiscard]] ExpertRanks place(ExpertsArgs& call, std::int64_t block) const;
  /// The part of the shared expert that this rank adds to sums of tokens that all ranks have.
  void share_expert(ExpertsArgs& call) const;
  void add_up_sums(ExpertsArgs call);
  void gather_tokens(const Exchange& exchange, const Pass& pass);
  void exchange_assignments(const Exchange& exchange, const Pass& pass);
  /// Places that a rank has for what each sends, where dispatch, experts and combine are to be one; else 0.
  [[nodiscard]] std::int64_t fused_places(const ExpertsArgs& call) const;
  /// Shared and routed experts, with a join of what was posted in between.
  void run_arrived(const Exchange& exchange, const Pass& pass);
  void gather_dispatched(const Activations<2>& out, const Pass& pass);
  void post(const Pass& pass, int num_units, const std::function<void()>& messages);

  // Arguments of an exchange's operations.
  /// Rows of this rank's batch that it dispatches.
  [[nodiscard]] RowRange dispatched_rows(const ExpertsArgs& call, const Pass& pass) const;
  [[nodiscard]] DispatchArgs dispatch_of(const Exchange& exchange, const Pass& pass);
  [[nodiscard]] ExpertsArgs arrived_of(const Exchange& exchange, const Pass& pass);
  [[nodiscard]] ExpertsArgs shared_of(const Exchange& exchange, const Pass& pass);
  [[nodiscard]] ExpertsArgs routed_of(const Exchange& exchange, const Pass& pass);
  [[nodiscard]] CombineArgs combine_of(const Exchange& exchange, const Pass& pass);

  PassContext context_;
  Router router_;
  PerMicroBatch<ExpertMessages> messages_;
  Activations<2> sums_;
  ExpertStore* store_ = nullptr;
  ExpertSums expert_sums_ = ExpertSums::kFree;
  ExpectedLoad expected_load_;
};

}  // namespace baleen
