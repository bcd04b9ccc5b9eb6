#include "ops/dispatch/cuda/nccl_dispatch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "cuda/cuda_error.h"
#include "numeric/block_scale.h"
#include "ops/collectives/cuda/nccl_collectives.h"
#include "ops/collectives/cuda/nccl_exchange.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr std::int64_t kVectorBytes = 16;

std::int64_t whole_vectors(std::int64_t bytes) {
  return (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

/// Tokens of a piece: those of all members fit the buffer.
std::int64_t tokens_of_piece(const RankGroup& stage, std::int64_t token_bytes, std::int64_t most_tokens,
                             std::int64_t buffer_bytes) {
  const std::int64_t fit = buffer_bytes / (stage.size() * token_bytes);
  BALEEN_CHECK_LT(0, fit);
  return std::min(fit, most_tokens);
}

/// Part of the buffer that has numbers of rows where these are counted.
constexpr std::int64_t kNumberBytes = std::int64_t{16} << 20;

/// Whether the outputs that there are return, not all places: in steps of more tokens than any graph has.
bool counts_outputs(const CombineLaunch& launch, const RankGroup& stage, const CudaContext& context) {
  const std::int64_t tokens = launch.places / launch.num_selected;
  // Two for each assignment, and for each token at most as many counts as there are members, twice.
  const std::int64_t numbers = (stage.size() + 1) * (launch.places + 2 * tokens);
  if (tokens <= kMaxCapturedTokens || numbers * std::int64_t{sizeof(std::int32_t)} > kNumberBytes)
    return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(context.stream, &status), "asking whether a step is captured");
  return status == cudaStreamCaptureStatusNone;
}

void return_all_places(const CombineLaunch& launch, const RankGroup& stage, const NcclRank& nccl,
                       CudaContext& context) {
  ReturnedOutputs outputs{.combine = launch, .arrived = reinterpret_cast<const Bf16Bits*>(nccl.buffer())};
  const std::int64_t token_bytes = launch.num_selected * launch.width * std::int64_t{sizeof(Bf16Bits)};
  const std::int64_t most_tokens = launch.places / launch.num_selected;
  const std::int64_t piece = tokens_of_piece(stage, token_bytes, most_tokens, NcclRank::kBufferBytes);
  const auto* const y = reinterpret_cast<const std::byte*>(launch.y);
  for (std::int64_t first = 0; first < most_tokens; first += piece) {
    outputs.first_token = static_cast<std::int32_t>(first);
    outputs.num_tokens = static_cast<std::int32_t>(std::min(piece, most_tokens - first));
    const std::int64_t bytes = outputs.num_tokens * token_bytes;
    NcclExchange exchange(nccl, stage);
    for (std::int64_t i = 0; i < stage.size(); ++i) {
      if (i == stage.place) continue;
      exchange.send(i, y + (i * most_tokens + first) * token_bytes, bytes);
      exchange.receive(i, nccl.buffer() + i * bytes, bytes);
    }
    exchange.run(context);
    launch_add_returned(outputs, context);
  }
}

/// Of a piece a rank sends at most all assignments of the others and gets those of its own tokens.
void return_counted(const CombineLaunch& launch, const RankGroup& stage, const NcclRank& nccl,
                    CudaContext& context) {
  const std::int64_t size = stage.size(), row_bytes = launch.width * std::int64_t{sizeof(Bf16Bits)};
  const std::int64_t most_tokens = launch.places / launch.num_selected;
  const std::int64_t piece = tokens_of_piece(stage, launch.num_selected * row_bytes, most_tokens,
                                             NcclRank::kBufferBytes - kNumberBytes);
  auto* const numbers =
      reinterpret_cast<std::int32_t*>(nccl.buffer() + NcclRank::kBufferBytes - kNumberBytes);
  CountedOutputs outputs{.combine = launch,
                         .num_members = static_cast<std::int32_t>(size),
                         .piece_tokens = static_cast<std::int32_t>(piece),
                         .num_pieces = static_cast<std::int32_t>((most_tokens + piece - 1) / piece),
                         .sent_places = numbers,
                         .taken_places = numbers + size * launch.places,
                         .counts = numbers + (size + 1) * launch.places,
                         .sent = reinterpret_cast<Bf16Bits*>(nccl.buffer())};
  outputs.arrived = outputs.sent + (size - 1) * piece * launch.num_selected * launch.width;
  launch_count_outputs(outputs, context);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(2 * outputs.num_pieces * size));
  check_cuda(cudaMemcpyAsync(counts.data(), outputs.counts, counts.size() * sizeof(std::int32_t),
                             cudaMemcpyDeviceToHost, context.stream),
             "counting outputs");
  check_cuda(cudaStreamSynchronize(context.stream), "counting outputs");
  nccl.check();  // what was counted is void where ranks have lost each other
  for (std::int32_t at = 0; at < outputs.num_pieces; ++at) {
    const std::int32_t* const sent = counts.data() + at * 2 * size;
    const std::int32_t* const taken = sent + size;
    launch_pack_outputs(outputs, at, context);
    NcclExchange exchange(nccl, stage);
    auto* from = reinterpret_cast<const std::byte*>(outputs.sent);
    auto* to = reinterpret_cast<std::byte*>(outputs.arrived);
    for (std::int64_t i = 0; i < size; ++i) {
      if (i == stage.place) continue;
      exchange.send(i, from, sent[i] * row_bytes);
      exchange.receive(i, to, taken[i] * row_bytes);
      from += sent[i] * row_bytes;
      to += taken[i] * row_bytes;
    }
    exchange.run(context);
    launch_add_counted(outputs, at, context);
  }
}

}  // namespace

void nccl_dispatch(const DispatchArgs& args, CudaContext& context) {
  const NcclRank& nccl = nccl_of(context, ops::Dispatch::kName);
  const RankGroup& stage = *args.placement.stage;
  PackedTokens tokens{.dispatch = dispatch_launch(args, context),
                      .num_members = static_cast<std::int32_t>(stage.size()),
                      .packed = nccl.buffer()};
  const DispatchLaunch& launch = tokens.dispatch;
  const std::int64_t width = launch.width, num_selected = launch.num_selected;
  const std::int64_t scale_bytes = width / kActivationGroup * std::int64_t{sizeof(float)};
  tokens.row_bytes = whole_vectors(args.sends_fp8 ? width + scale_bytes : 2 * width);
  tokens.token_bytes =
      tokens.row_bytes + whole_vectors(num_selected * std::int64_t{sizeof(std::int32_t) + sizeof(float)});
  const std::int64_t most_tokens = launch.places / num_selected;
  const std::int64_t piece = tokens_of_piece(stage, tokens.token_bytes, most_tokens, NcclRank::kBufferBytes);
  for (std::int64_t first = 0; first < most_tokens; first += piece) {
    tokens.first_token = static_cast<std::int32_t>(first);
    tokens.num_packed = static_cast<std::int32_t>(std::min(piece, most_tokens - first));
    const std::int64_t bytes = tokens.num_packed * tokens.token_bytes;
    launch_pack_tokens(tokens, context);
    NcclExchange exchange(nccl, stage);
    for (std::int64_t i = 0; i < stage.size(); ++i) {
      if (i == stage.place) continue;
      exchange.send(i, tokens.packed + stage.place * bytes, bytes);
      exchange.receive(i, tokens.packed + i * bytes, bytes);
    }
    exchange.run(context);
    launch_place_tokens(tokens, context);
  }
  note_places(args, launch.places);
}

void nccl_combine(const CombineArgs& args, CudaContext& context) {
  const NcclRank& nccl = nccl_of(context, ops::Combine::kName);
  const CombineLaunch launch = combine_launch(args);
  if (counts_outputs(launch, *args.placement.stage, context)) {
    return_counted(launch, *args.placement.stage, nccl, context);
  } else {
    return_all_places(launch, *args.placement.stage, nccl, context);
  }
}

}  // namespace baleen::BALEEN_ARCH
