/// Launches of the hyper-connection kernel: what its arguments must be, and its shape for a number of rows.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/kernel_launch.h"
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

/// Clusters of that many blocks that the device runs at once.
template <bool kLeaving, int kWidth>
[[nodiscard]] int hc_resident_clusters(int ranks, std::int64_t shared_bytes) {
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
  return std::max(1, clusters);
}

template <bool kLeaving, int kWidth>
void launch_hc_site_of(HcSiteArgs args, CudaContext& context) {
  const auto kernel = hc_site_kernel<kLeaving, kWidth>;
  const int ranks = hc_ranks(args.width), chunks = hc_chunks_per_warp(args.width);
  const int most_octets = std::max(1, kHcMaxBatchUnits / chunks);
  const auto shared_bytes = [&](int buffers, int octets) {
    return static_cast<std::int64_t>(sizeof(HcSiteShared)) + hc_slot_bytes(buffers, octets * chunks);
  };
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "hc_site");
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes(2, most_octets))),
             "hc_site");

  const int octets = (args.num_rows + kHcOctet - 1) / kHcOctet;
  const int resident = hc_resident_clusters<kLeaving, kWidth>(ranks, shared_bytes(2, most_octets));
  args.octets_per_cluster = (octets + resident - 1) / resident;
  args.octets_per_batch = std::min(args.octets_per_cluster, most_octets);
  const int clusters = (octets + args.octets_per_cluster - 1) / args.octets_per_cluster;
  const int buffers = args.octets_per_batch < args.octets_per_cluster ? 2 : 1;
  launch_kernel("hc_site", kernel,
                {.grid = dim3(static_cast<unsigned>(clusters * ranks)),
                 .threads = kHcSiteThreads,
                 .shared_bytes = shared_bytes(buffers, args.octets_per_batch),
                 .cluster = ranks},
                context.stream, args);
}

template <bool kLeaving>
void launch_hc_site(const HcSiteArgs& args, CudaContext& context) {
  constexpr int kFlashWidth = 4096;
  if (args.num_rows == 0) return;
  if (args.width == kFlashWidth) return launch_hc_site_of<kLeaving, kFlashWidth>(args, context);
  launch_hc_site_of<kLeaving, 0>(args, context);
}

}  // namespace baleen
