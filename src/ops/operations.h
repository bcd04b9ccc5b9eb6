/// The operations of the forward pass, a line each. All that is generic (tables of variants, scratch, forcing
/// by name, reports, tests that walk them) is written over this list.
#pragma once

#include "ops/collectives/all_gather.h"
#include "ops/collectives/all_reduce.h"
#include "ops/collectives/all_to_all.h"
#include "ops/collectives/send.h"
#include "ops/compressor/compressor.h"
#include "ops/dispatch/combine.h"
#include "ops/dispatch/dispatch.h"
#include "ops/embed/embed.h"
#include "ops/engram/engram.h"
#include "ops/engram/engram_lookup.h"
#include "ops/entry_store/entry_store.h"
#include "ops/experts/experts.h"
#include "ops/fused_experts/fused_experts.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/hc_head/hc_head.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/indexer/indexer.h"
#include "ops/kv_store/kv_store.h"
#include "ops/latent/latent.h"
#include "ops/linear/linear.h"
#include "ops/lm_head/lm_head.h"
#include "ops/markov/markov.h"
#include "ops/mtp_combine/mtp_combine.h"
#include "ops/operation/type_list.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_angles.h"
#include "ops/route/route.h"
#include "ops/sample/sample.h"
#include "ops/sparse_attention/sparse_attention.h"
#include "ops/stream_mean/stream_mean.h"

namespace baleen {

// clang-format off
using Operations = TypeList<
    ops::Embed,
    ops::EngramLookup,
    ops::Engram,
    ops::RopeAngles,
    ops::HcPre,
    ops::HcPost,
    ops::HcHead,
    ops::RmsNorm,
    ops::Linear,
    ops::Rope,
    ops::KvStore,
    ops::Compressor,
    ops::Latent,
    ops::EntryStore,
    ops::Indexer,
    ops::SparseAttention,
    ops::GroupedLinear,
    ops::Route,
    ops::Experts,
    ops::MtpCombine,
    ops::StreamMean,
    ops::LmHead,
    ops::Markov,
    ops::GatherRows,
    ops::Sample,
    ops::Dispatch,
    ops::Combine,
    ops::AllReduce,
    ops::AllGather,
    ops::ReduceScatter,
    ops::AllToAll,
    ops::Send,
    ops::Receive>;
// clang-format on

}  // namespace baleen
