/// A device runs operations: the forward pass is written once against this interface. The CPU runs them at
/// once; others may queue them, or only write down what they were asked.
#pragma once

#include "ops/compressor/compressor.h"
#include "ops/embed/embed.h"
#include "ops/experts/experts.h"
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
#include "ops/route/route.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace baleen {

/// Operations take effect in the order of the calls. Arguments must stay valid until they have.
class Device {
 public:
  virtual ~Device() = default;

  virtual void embed(const EmbedArgs& args) = 0;
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
};

}  // namespace baleen
