#include "model/identity.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/file.h"

namespace baleen {
namespace {

constexpr std::size_t kSampledTensors = 512;
constexpr std::size_t kSampleBytes = 256;

class Hash {
 public:
  Hash() { XXH3_128bits_reset(state_.get()); }
  /// With its length, so that neighbours cannot trade bytes.
  void add(std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    XXH3_128bits_update(state_.get(), &size, sizeof(size));
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  [[nodiscard]] std::string digits() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

}  // namespace

std::string checkpoint_identity(const Checkpoint& checkpoint) {
  Hash hash;
  const std::filesystem::path config = checkpoint.folder() / "config.json";
  if (std::filesystem::exists(config)) hash.add(read_text_file(config));  // tensors in memory have none
  const std::vector<TensorInfo>& tensors = checkpoint.tensors();
  const std::size_t every = std::max<std::size_t>(1, tensors.size() / kSampledTensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    hash.add(tensor.name);
    hash.add(tensor.type_text());
    if (i % every != 0) continue;
    const auto middle = tensor.bytes.subspan(tensor.bytes.size() / 2);
    const auto sample = middle.first(std::min(middle.size(), kSampleBytes));
    hash.add({reinterpret_cast<const char*>(sample.data()), sample.size()});
  }
  return hash.digits();
}

}  // namespace baleen
