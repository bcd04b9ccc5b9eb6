#include "ops/dispatch/sm90/nccl_dispatch.h"

#include <algorithm>

#include "base/check.h"
#include "numeric/block_scale.h"
#include "ops/collectives/sm90/nccl_collectives.h"
#include "ops/collectives/sm90/nccl_exchange.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kVectorBytes = 16;

std::int64_t whole_vectors(std::int64_t bytes) {
  return (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

/// Tokens of a piece: those of all members fit the buffer.
std::int64_t tokens_of_piece(const RankGroup& stage, std::int64_t token_bytes, std::int64_t most_tokens) {
  const std::int64_t fit = NcclRank::kBufferBytes / (stage.size() * token_bytes);
  BALEEN_CHECK_LT(0, fit);
  return std::min(fit, most_tokens);
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
  const std::int64_t scale_bytes = width / kActivationBlock * std::int64_t{sizeof(float)};
  tokens.row_bytes = whole_vectors(args.sends_fp8 ? width + scale_bytes : 2 * width);
  tokens.token_bytes =
      tokens.row_bytes + whole_vectors(num_selected * std::int64_t{sizeof(std::int32_t) + sizeof(float)});
  const std::int64_t most_tokens = launch.places / num_selected;
  const std::int64_t piece = tokens_of_piece(stage, tokens.token_bytes, most_tokens);
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
  const RankGroup& stage = *args.placement.stage;
  ReturnedOutputs outputs{.combine = combine_launch(args),
                          .arrived = reinterpret_cast<const Bf16Bits*>(nccl.buffer())};
  const CombineLaunch& launch = outputs.combine;
  const std::int64_t token_bytes = launch.num_selected * launch.width * std::int64_t{sizeof(Bf16Bits)};
  const std::int64_t most_tokens = launch.places / launch.num_selected;
  const std::int64_t piece = tokens_of_piece(stage, token_bytes, most_tokens);
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

}  // namespace baleen::sm90
