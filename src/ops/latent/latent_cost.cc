#include <algorithm>

#include "ops/compressor/step_entries.h"
#include "ops/latent/latent.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {
namespace {

constexpr double kFloatPairBytes = 8;  ///< a value of kv and one of gate, float32
/// A pooled value of two: maximum, two differences, two exponentials, two products, two sums, division.
constexpr double kPairOps = 10;

}  // namespace

OpCost latent_cost(const LatentArgs& args) {
  OpCost cost;
  if (args.kv.size() == 0) return cost;
  const auto width = static_cast<double>(args.kv.extent(1));
  cost.read_bytes = bytes_of(args.kv) + bytes_of(args.gate);
  cost.read_weights(norm_weight_bytes(args.kv.extent(1)));
  cost.write_bytes = bytes_of(args.latent);
  for (const SequenceSlice& slice : args.batch.slices) {
    const std::int64_t end = slice.start + slice.num_tokens, first = first_entry(slice, args.ratio);
    const std::int64_t num_latents = end_entry(slice, args.ratio) - first;
    cost.scalar_ops +=
        static_cast<double>(num_latents) * width * (kNormOps + (args.ratio == 1 ? 0 : kPairOps));
    if (args.ratio == 1) continue;
    // The first latent's first token stands before the step, and the last token may be the first of a pair.
    if (num_latents > 0 && first * args.ratio < slice.start) cost.read_bytes += kFloatPairBytes * width;
    if (end % args.ratio != 0) cost.write_bytes += kFloatPairBytes * width;
  }
  return cost;
}

}  // namespace baleen
