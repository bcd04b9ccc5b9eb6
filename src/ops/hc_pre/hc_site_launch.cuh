/// Launches of the hyper-connection kernels: what their arguments must be, which of them run, and in which shape.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
#include "ops/hc_pre/hc_passes.cuh"
#include "ops/hc_pre/hc_pre.h"
#include "ops/hc_pre/hc_site.cuh"

namespace baleen {

/// What the site that is entered, and its norm, say.
[[nodiscard]] inline HcSiteArgs hc_site_args(const HcPreArgs& pre, const RmsNormArgs& norm) {
  const std::int64_t num_rows = pre.streams.extent(0), width = pre.streams.extent(2);
  BALEEN_CHECK(pre.precision == Precision::kReleased && norm.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(pre.streams.extent(1), kHcStreams);
  BALEEN_CHECK(width > 0 && width % kHcBlock == 0 && width <= kHcMaxRanks * kHcMaxSlice);
  BALEEN_CHECK(pre.streams.dense() && pre.weights.fn.dense() && pre.post.dense() && pre.comb.dense());
  BALEEN_CHECK(pre.weights.fn.extent(0) == kHcMixes && pre.weights.fn.extent(1) == kHcStreams * width);
  BALEEN_CHECK(pre.weights.base.size() == kHcMixes && pre.weights.scale.size() == 3);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(norm.weight.size()), width);
  BALEEN_CHECK(norm.y.extent(0) == num_rows && norm.y.extent(1) == width && norm.y.stride(0) % 8 == 0);
  HcSiteArgs args;
  args.streams = const_cast<Bf16Bits*>(pre.streams.bf16().data());  // written only where a half-block is left
  args.fn = pre.weights.fn.data();
  args.base = pre.weights.base.data();
  args.scale = pre.weights.scale.data();
  args.norm_eps = pre.norm_eps;
  args.hc_eps = pre.hc_eps;
  args.sinkhorn_iterations = pre.sinkhorn_iterations;
  args.post = pre.post.f32().data();
  args.comb = pre.comb.f32().data();
  args.norm_weight = norm.weight.data();
  args.rms_eps = norm.eps;
  args.y = norm.y.bf16().data();
  args.y_stride = norm.y.stride(0);
  args.y_fp8 = norm.y_fp8;
  args.num_rows = static_cast<int>(num_rows);
  args.width = static_cast<int>(width);
  return args;
}

/// Clusters of that many blocks that the device runs at once. Asked once: a machine's devices are of one kind.
template <bool kLeaving, int kWidth>
[[nodiscard]] int hc_resident_clusters(int ranks, std::int64_t shared_bytes) {
  static std::array<std::atomic<int>, kHcMaxRanks + 1> known{};
  if (const int clusters = known[static_cast<std::size_t>(ranks)]; clusters > 0) return clusters;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(ranks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ranks));
  config.blockDim = dim3(kHcSiteThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  check_cuda(cudaOccupancyMaxActiveClusters(&clusters, hc_site_kernel<kLeaving, kWidth>, &config), "hc_site");
  return known[static_cast<std::size_t>(ranks)] = std::max(1, clusters);
}

/// One kernel; `tokens_per_cluster` rows at most for each of the clusters that run at once.
template <bool kLeaving, int kWidth>
void launch_hc_clusters(const HcSiteArgs& args, int tokens_per_cluster, CudaContext& context) {
  const int ranks = hc_ranks(args.width);
  const int clusters = (args.num_rows + tokens_per_cluster - 1) / tokens_per_cluster;
  launch_kernel("hc_site", hc_site_kernel<kLeaving, kWidth>,
                {.grid = dim3(static_cast<unsigned>(clusters * ranks)),
                 .threads = kHcSiteThreads,
                 .shared_bytes = static_cast<std::int64_t>(sizeof(HcSiteShared)) +
                                 hc_slot_bytes(args.width, 1, hc_octets(tokens_per_cluster)),
                 .cluster = ranks},
                context.stream, args, tokens_per_cluster);
}

/// Two kernels; the rows of the first in equal parts for as many blocks of every rank as the device has room for.
template <bool kLeaving, int kWidth>
void launch_hc_passes(const HcSiteArgs& args, CudaContext& context) {
  const int ranks = hc_ranks(args.width), octets_per_batch = hc_most_octets(args.width);
  const ScratchScope scope(context.scratch);
  float* const sums = context.scratch.allocate<float>(std::int64_t{args.num_rows} * ranks * kHcSums);
  const int parts = std::max(1, context.num_sms / ranks);
  const int octets_per_block = (hc_octets(args.num_rows) + parts - 1) / parts;
  const int rows_per_block = octets_per_block * kHcOctet;
  const int blocks = (args.num_rows + rows_per_block - 1) / rows_per_block * ranks;
  launch_kernel("hc_products", hc_products_kernel<kLeaving, kWidth>,
                {.grid = dim3(static_cast<unsigned>(blocks)),
                 .threads = kHcStreamThreads,
                 .shared_bytes = static_cast<std::int64_t>(sizeof(HcStreamsShared)) +
                                 hc_slot_bytes(args.width, 2, octets_per_batch)},
                context.stream, args, rows_per_block, octets_per_batch, sums);
  launch_kernel("hc_rows", hc_rows_kernel<kWidth>,
                {.grid = dim3(static_cast<unsigned>(args.num_rows)), .threads = kHcRowsThreads},
                context.stream, args, static_cast<const float*>(sums));
}

template <bool kLeaving, int kWidth>
void launch_hc_site_of(const HcSiteArgs& args, CudaContext& context) {
  const auto kernel = hc_site_kernel<kLeaving, kWidth>;
  const std::int64_t most_bytes = static_cast<std::int64_t>(sizeof(HcSiteShared)) +
                                  hc_slot_bytes(args.width, 1, hc_most_octets(args.width));
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "hc_site");
  check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most_bytes)),
      "hc_site");
  const int clusters = hc_resident_clusters<kLeaving, kWidth>(hc_ranks(args.width), most_bytes);
  const int octets_per_cluster = (hc_octets(args.num_rows) + clusters - 1) / clusters;
  if (octets_per_cluster <= hc_most_octets(args.width)) {
    launch_hc_clusters<kLeaving, kWidth>(args, octets_per_cluster * kHcOctet, context);
  } else {
    launch_hc_passes<kLeaving, kWidth>(args, context);
  }
}

template <bool kLeaving>
void launch_hc_site(const HcSiteArgs& args, CudaContext& context) {
  constexpr int kFlashWidth = 4096;
  if (args.num_rows == 0) return;
  if (args.width == kFlashWidth) return launch_hc_site_of<kLeaving, kFlashWidth>(args, context);
  launch_hc_site_of<kLeaving, 0>(args, context);
}

}  // namespace baleen
