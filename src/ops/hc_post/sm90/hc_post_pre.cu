#include "comm/peer/peer_memory.h"
#include "ops/collectives/sm90/collectives.h"
#include "ops/hc_post/sm90/hc_post.h"
#include "ops/hc_post/sm90/hc_summed_half.cuh"
#include "ops/hc_pre/sm90/hc_site_launch.cuh"

namespace baleen::sm90 {
namespace {

HcSiteArgs site_args(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm) {
  BALEEN_CHECK(post.precision == Precision::kReleased);
  BALEEN_CHECK(post.streams.address() == pre.streams.address());
  BALEEN_CHECK(post.f.dense() && post.post.dense() && post.comb.dense());
  HcSiteArgs args = hc_site_args(pre, norm);
  args.f = post.f.bf16().data();
  args.left_post = post.post.f32().data();
  args.left_comb = post.comb.f32().data();
  return args;
}

}  // namespace

void hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm,
                      CudaContext& context) {
  launch_hc_site<true>(site_args(post, pre, norm), context);
}

void all_reduce_hc_post_pre_norm(const AllReduceArgs& reduce, const HcPostArgs& post, const HcPreArgs& pre,
                                 const RmsNormArgs& norm, CudaContext& context) {
  const HcSiteArgs args = site_args(post, pre, norm);
  const HcSummedHalf half{.peers = peers_of(context, ops::AllReduce::kName).view(*reduce.group),
                          .sums = reduce.x.data()};
  BALEEN_CHECK_LE(args.num_rows, kMaxSummedTokens);
  // A rank that shares its GPU with many others has fewer blocks for what exchanges.
  if (hc_ranks(args.width) > half.peers.max_blocks) {
    all_reduce(reduce, context);
    return hc_post_pre_norm(post, pre, norm, context);
  }
  launch_hc_site<true>(args, context, half);
}

}  // namespace baleen::sm90
