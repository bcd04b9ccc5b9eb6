/// A hyper-connection site in two kernels: out of a sublayer (`hc_post`), into the next (`hc_pre`), its norm,
/// and the rows as FP8 products want them. What the arguments must be, and launches for a number of rows.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "cuda/block_memory.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "ops/hc_pre/cuda/hc_products.cuh"
#include "ops/hc_pre/cuda/hc_rows.cuh"
#include "ops/hc_pre/hc_pre.h"

namespace baleen::BALEEN_ARCH {

/// What the site that is entered says. `y`: where the rows go.
[[nodiscard]] inline HcSiteArgs hc_entry_args(const HcPreArgs& pre, const Activations<2>& y) {
  const std::int64_t num_rows = pre.streams.extent(0), width = pre.streams.extent(2);
  BALEEN_CHECK(pre.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(pre.streams.extent(1), kHcStreams);
  BALEEN_CHECK(width > 0 && width % kActivationGroup == 0 && width <= kHcMaxWidth);
  BALEEN_CHECK(pre.streams.dense() && pre.weights.fn.dense() && pre.post.dense() && pre.comb.dense());
  BALEEN_CHECK(pre.weights.fn.extent(0) == kHcMixes && pre.weights.fn.extent(1) == kHcStreams * width);
  BALEEN_CHECK(pre.weights.base.size() == kHcMixes && pre.weights.scale.size() == 3);
  BALEEN_CHECK(y.extent(0) == num_rows && y.extent(1) == width && y.stride(0) % 8 == 0);
  HcSiteArgs args;
  args.streams = const_cast<Bf16Bits*>(pre.streams.bf16().data());  // written only where a sublayer is left
  args.fn = pre.weights.fn.data();
  args.base = pre.weights.base.data();
  args.scale = pre.weights.scale.data();
  args.norm_eps = pre.norm_eps;
  args.hc_eps = pre.hc_eps;
  args.sinkhorn_iterations = pre.sinkhorn_iterations;
  args.post = pre.post.f32().data();
  args.comb = pre.comb.f32().data();
  if (pre.lags()) {
    BALEEN_CHECK(pre.incoming.dense() && pre.incoming.extent(1) == kHcStreams);
    args.incoming = pre.incoming.f32().data();
  }
  if (!pre.pre.empty()) {
    BALEEN_CHECK(pre.pre.dense() && pre.pre.extent(1) == kHcStreams);
    args.pre = pre.pre.f32().data();
  }
  args.y = y.bf16().data();
  args.y_stride = y.stride(0);
  args.num_rows = static_cast<int>(num_rows);
  args.width = static_cast<int>(width);
  return args;
}

/// The same with the norm that follows.
[[nodiscard]] inline HcSiteArgs hc_site_args(const HcPreArgs& pre, const RmsNormArgs& norm) {
  BALEEN_CHECK(norm.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(norm.weight.size()), pre.streams.extent(2));
  HcSiteArgs args = hc_entry_args(pre, norm.y);
  args.norm_weight = norm.weight.data();
  args.rms_eps = norm.eps;
  args.y_fp8 = norm.y_fp8;
  return args;
}

/// The rows go in equal parts to as many blocks of every rank as the device has room for.
template <bool kLeaving, int kWidth, bool kNorm = true>
void launch_hc_site_of(const HcSiteArgs& args, CudaContext& context) {
  const int ranks = hc_ranks(args.width), octets = hc_octets(args.num_rows);
  const ScratchScope scope(context.scratch);
  float* const sums = context.scratch.allocate<float>(std::int64_t{args.num_rows} * ranks * kHcSums);
  const HcCut cut =
      hc_cut(octets, args.width, std::max(1, context.num_sms / ranks), most_shared_bytes("hc_products"));
  const int parts = (octets + cut.octets_per_block - 1) / cut.octets_per_block;
  launch_kernel("hc_products", hc_products_kernel<kLeaving, kWidth>,
                {.grid = dim3(static_cast<unsigned>(parts * ranks)),
                 .threads = kHcStreamThreads,
                 .shared_bytes = hc_shared_bytes(args.width, cut.buffers, cut.octets_per_batch)},
                context.stream, args, cut.octets_per_block * kHcOctet, cut.octets_per_batch, sums);
  launch_kernel("hc_rows", hc_rows_kernel<kWidth, kNorm>,
                {.grid = dim3(static_cast<unsigned>(args.num_rows)), .threads = kHcRowsThreads},
                context.stream, args, static_cast<const float*>(sums));
}

template <bool kLeaving>
void launch_hc_site(const HcSiteArgs& args, CudaContext& context) {
  constexpr int kFlashWidth = 4096, kV41FlashWidth = 5120;
  if (args.num_rows == 0) return;
  if (args.width == kFlashWidth) return launch_hc_site_of<kLeaving, kFlashWidth>(args, context);
  if (args.width == kV41FlashWidth) return launch_hc_site_of<kLeaving, kV41FlashWidth>(args, context);
  launch_hc_site_of<kLeaving, 0>(args, context);
}

}  // namespace baleen::BALEEN_ARCH
