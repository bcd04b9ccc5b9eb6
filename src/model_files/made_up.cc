#include "model_files/made_up.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "base/progress.h"
#include "model/tensor_table.h"
#include "model_files/random_weights.h"

namespace baleen {
namespace {

/// Of one tensor: weight and scales in the order of `stored_tensors`, or a plain tensor's bytes alone.
using Arrays = std::vector<std::vector<std::byte>>;

/// The name without numbers of layers and experts, with the shape: HCA and CSA compressors differ in it.
std::string kind_of(const TensorSpec& tensor) {
  std::string kind;
  for (const char c : tensor.name) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 ||
        (!kind.empty() && kind.back() != '.' && kind.back() != '#')) {
      kind += c;
    } else if (kind.back() != '#') {
      kind += '#';
    }
  }
  for (const std::int64_t extent : tensor.shape) kind += fmt::format(" {}", extent);
  return kind;
}

Arrays make(const TensorSpec& tensor, WeightSource& source) {
  Arrays arrays(1);
  if (tensor.is_encoded()) {
    EncodedMatrix encoded;
    source.encode(tensor, encoded);
    for (const std::span<const std::byte> scale : encoded.scales())
      arrays.emplace_back(scale.begin(), scale.end());
    arrays[0] = std::move(encoded.weight);
    return arrays;
  }
  source.write_plain(tensor, [&](std::span<const std::byte> piece) {
    arrays[0].insert(arrays[0].end(), piece.begin(), piece.end());
  });
  return arrays;
}

}  // namespace

std::unique_ptr<ModelWeights> made_up_weights(const ModelConfig& config, std::uint64_t seed, ThreadPool& pool,
                                              MadeUpBytes bytes_of, double zipf_exponent) {
  validate(config, "made-up weights");
  const StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  const auto source = make_random_weights(config, formats, seed, pool, zipf_exponent);
  auto kinds = std::make_shared<std::map<std::string, Arrays>>();
  const std::vector<TensorSpec> table = tensor_table(config);
  Progress progress("making up weights", "tensors", static_cast<std::int64_t>(table.size()));
  std::int64_t done = 0;
  std::vector<TensorInfo> tensors;
  for (const TensorSpec& spec : table) {
    progress.update(done++, spec.name);
    // Layers whose tables are the same would send every token to the same experts.
    const bool shares = bytes_of == MadeUpBytes::kShared && spec.storage != Storage::kI64;
    const auto [kind, is_new] = kinds->try_emplace(shares ? kind_of(spec) : spec.name);
    if (is_new) kind->second = make(spec, *source);
    std::size_t array = 0;
    for (TensorHeader& header : stored_tensors(spec, formats))
      tensors.push_back({std::move(header), kind->second[array++], "made-up weights"});
  }
  return std::make_unique<ModelWeights>(config,
                                        Checkpoint("made-up weights", std::move(tensors), std::move(kinds)));
}

}  // namespace baleen
