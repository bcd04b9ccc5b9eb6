/// A device runs operations: the forward pass is written once against this interface. The CPU runs them at
/// once; others may queue them, or only write down what they were asked.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "device/op_profile.h"
#include "ops/compressor/compressor.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/hc_head/hc_head.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/indexer/indexer.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/linear.h"
#include "ops/lm_head/lm_head.h"
#include "ops/mtp_combine/mtp_combine.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_angles.h"
#include "ops/route/route.h"
#include "ops/sample/sample.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "tensor/activations.h"
#include "tensor/chosen_token.h"
#include "tensor/memory.h"

namespace baleen {

/// A batch as the device has it.
struct StepRows {
  std::int64_t num_rows = 0;        ///< of the batch, and perhaps some of padding behind them
  std::span<const TokenId> tokens;  ///< [num_rows], where operations read them
};

/// Sequences of operations that are run again and again with other batches.
enum class StepPart : std::uint8_t { kMain, kMtp, kCount };

/// Operations take effect in the order of the calls. Arguments must stay valid until they have.
class Device {
 public:
  static constexpr int kNumMarks = 2;

  virtual ~Device() = default;

  /// For people: "this machine's memory", "NVIDIA H200 (cuda:0)".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Where operations want their arrays.
  [[nodiscard]] virtual Memory& memory() = 0;
  /// Memory of the host that this device copies to and from at full speed.
  [[nodiscard]] virtual Memory& host_visible_memory() = 0;
  /// Of `memory`, at the moment.
  [[nodiscard]] virtual std::int64_t free_bytes() const = 0;
  /// Of activations that hold BF16 values.
  [[nodiscard]] virtual ElementType activation_type() const = 0;
  /// Rows that a step of `num_rows` takes at most, padding included.
  [[nodiscard]] virtual std::int64_t padded_rows(std::int64_t num_rows) const = 0;
  /// Waits until all operations have taken effect. Throws what went wrong in them.
  virtual void synchronise() = 0;

  /// The operations that follow are over `batch`, until the next call.
  virtual StepRows begin(const RaggedBatch& batch) = 0;
  /// The same for a batch with tokens that operations called before leave at `chosen`, where both device and
  /// host reach them: a negative token of the batch is the index of its place there (`chosen_token`). A
  /// negative one there counts as 0.
  virtual StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) = 0;
  /// Marks the place behind all operations that were called so far; marks have numbers from 0 to kNumMarks - 1.
  virtual void set_mark(int mark) = 0;
  /// Waits until the place was reached where `mark` was set last. Throws what went wrong on the way.
  virtual void wait_for(int mark) = 0;
  /// Calls `operations`, which calls operations of this device over the current batch; or does without calling what was
  /// captured for this part and as many rows.
  virtual void run(StepPart part, const std::function<void()>& operations) = 0;
  /// Prepares steps of `num_rows` rows (one of padded_rows), where that makes them quicker: `operations` is what they will
  /// do, and depends on nothing but the part and the rows given to it. May call it, over rows of padding alone.
  virtual void capture(StepPart part, std::int64_t num_rows,
                       const std::function<void(const StepRows&)>& operations) = 0;

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rope_angles(const RopeAnglesArgs& args) = 0;
  virtual void hc_pre(const HcPreArgs& args) = 0;
  virtual void hc_post(const HcPostArgs& args) = 0;
  virtual void hc_head(const HcHeadArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void kv_store(const KvStoreArgs& args) = 0;
  virtual void compressor(const CompressorArgs& args) = 0;
  virtual void indexer(const IndexerArgs& args) = 0;
  virtual void sparse_attention(const SparseAttentionArgs& args) = 0;
  virtual void grouped_linear(const GroupedLinearArgs& args) = 0;
  virtual void route(const RouteArgs& args) = 0;
  virtual void experts(const ExpertsArgs& args) = 0;
  virtual void mtp_combine(const MtpCombineArgs& args) = 0;
  virtual void lm_head(const LmHeadArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void sample(const SampleArgs& args) = 0;

  // Operations that a device may fuse. What they mean is the sequence.

  /// norm.x and norm.y are pre.u.
  virtual void hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm) {
    hc_pre(pre);
    rms_norm(norm);
  }
  /// From one half-block to the next, over the same streams.
  virtual void hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm) {
    hc_post(post);
    hc_pre_norm(pre, norm);
  }
  /// turn.x is norm.y, a head a row.
  virtual void rms_norm_rope(const RmsNormArgs& norm, const RopeArgs& turn) {
    rms_norm(norm);
    rope(turn);
  }
  /// Independent of each other.
  virtual void rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store) {
    rms_norm(norm);
    kv_store(store);
  }
  /// turn.x is args.out.
  virtual void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& turn) {
    sparse_attention(args);
    rope(turn);
  }

  /// Times and costs by operation. Off by default, as it makes a step slower.
  virtual void set_profiling(bool on) = 0;
  [[nodiscard]] virtual OpProfile& profile() = 0;
};

}  // namespace baleen
