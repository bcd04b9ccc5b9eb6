// Experts in pinned memory of the host: those that some token has are copied, the others are not, and no bit
// of the output depends on where an expert lay.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "tests/support/expert_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// A layer's experts, a block each, on one row of places that spans both memories; behind those on the device
/// as many places for copies as there are experts.
class PlacedExperts {
 public:
  PlacedExperts(TestCuda& cuda, const Layer& layer, const std::function<bool(int)>& on_host)
      : num_experts_(layer.geometry().num_experts) {
    const ExpertWeights& first = layer.host()[0];
    for (const WeightMatrix* matrix : matrices(first)) {
      for (const auto& bytes : arrays(*matrix)) {
        offsets_.push_back(unit_);
        unit_ += (static_cast<std::int64_t>(bytes.size()) + 255) / 256 * 256;
      }
    }
    host_ = Buffer((num_experts_ + 1) * unit_, pinned_);
    std::byte* const device = cuda.allocate<std::byte>(2 * num_experts_ * unit_);
    // Blocks of the host begin a whole number of blocks from those of the device.
    const auto at_device = reinterpret_cast<std::intptr_t>(device);
    auto at_host = reinterpret_cast<std::intptr_t>(host_.data());
    at_host += ((at_device - at_host) % unit_ + unit_) % unit_;
    base_ = std::min(at_device, at_host);
    const auto place_of = [&](std::intptr_t address) {
      return static_cast<std::int32_t>((address - base_) / unit_);
    };
    for (int expert = 0; expert < num_experts_; ++expert) {
      const bool elsewhere = on_host(expert);
      place_.push_back(place_of(elsewhere ? at_host : at_device) + expert);
      copied_.push_back(elsewhere ? place_of(at_device) + num_experts_ + expert : place_.back());
      const std::vector<std::byte> block = block_of(layer.host()[static_cast<std::size_t>(expert)]);
      if (elsewhere) {
        std::memcpy(address(place_.back()), block.data(), block.size());
      } else {
        cuda.memory().upload(address(place_.back()), block);
      }
      at_.push_back(expert_at(first, expert));
    }
    const std::int64_t count = std::max(place_of(at_device), place_of(at_host)) + 2 * num_experts_;
    std::int32_t* const copied = cuda.upload(copied_);
    places_ = {.of_expert = cuda.upload(place_),
               .count = count,
               .copied = copied,
               .blocks = address(0),
               .block_bytes = unit_};
    // No slots: whatever comes goes to its place for copies.
    places_.slots = {.buffered = cuda.upload(copied_),
                     .copied = copied,
                     .state = cuda.upload(std::vector<ExpertSlotState>(1)),
                     .counts = cuda.upload(std::vector<ExpertFetchCounts>(1)),
                     .routed = cuda.upload(std::vector<std::int32_t>(1))};
  }

  [[nodiscard]] const ExpertPlaces& places() const { return places_; }
  [[nodiscard]] std::span<const ExpertWeights> at() const { return at_; }

  /// Of the experts on the host: those whose copies are there, and whole.
  [[nodiscard]] std::set<int> copies(TestCuda& cuda, const Layer& layer) const {
    std::set<int> found;
    for (int expert = 0; expert < num_experts_; ++expert) {
      const auto i = static_cast<std::size_t>(expert);
      if (copied_[i] == place_[i]) continue;
      const std::vector<std::byte> block = cuda.download(address(copied_[i]), unit_);
      if (block == block_of(layer.host()[i])) {
        found.insert(expert);
      } else {
        EXPECT_EQ(block, std::vector<std::byte>(block.size(), std::byte{0xFF})) << "expert " << expert;
      }
    }
    return found;
  }

 private:
  static std::array<const WeightMatrix*, 3> matrices(const ExpertWeights& expert) {
    return {&expert.w1, &expert.w3, &expert.w2};
  }
  /// Codes, scales and the scale of the whole matrix.
  static std::array<std::span<const std::byte>, 3> arrays(const WeightMatrix& matrix) {
    const auto bytes = [](const std::byte* data, std::int64_t size) {
      return std::span(data, static_cast<std::size_t>(size));
    };
    return {bytes(matrix.data, matrix.size_bytes()), bytes(matrix.scales(), matrix.scale_bytes()),
            bytes(reinterpret_cast<const std::byte*>(matrix.matrix_scale), matrix.matrix_scale_bytes())};
  }
  [[nodiscard]] std::byte* address(std::int64_t place) const {
    return reinterpret_cast<std::byte*>(base_ + place * unit_);
  }
  [[nodiscard]] std::vector<std::byte> block_of(const ExpertWeights& expert) const {
    std::vector<std::byte> block(static_cast<std::size_t>(unit_), std::byte{0});
    auto offset = offsets_.begin();
    for (const WeightMatrix* matrix : matrices(expert)) {
      for (const auto& bytes : arrays(*matrix)) {
        if (!bytes.empty()) std::memcpy(block.data() + *offset, bytes.data(), bytes.size());
        ++offset;
      }
    }
    return block;
  }
  [[nodiscard]] ExpertWeights expert_at(const ExpertWeights& like, std::int64_t place) const {
    ExpertWeights expert = like;
    auto offset = offsets_.begin();
    for (WeightMatrix* matrix : {&expert.w1, &expert.w3, &expert.w2}) {
      matrix->data = address(place) + *offset++;
      matrix->set_scales(address(place) + *offset++);
      matrix->set_matrix_scale(address(place) + *offset++);
    }
    return expert;
  }

  int num_experts_;
  CudaPinnedMemory pinned_;
  Buffer host_;
  std::int64_t unit_ = 0;
  std::vector<std::int64_t> offsets_;  ///< of the arrays of w1, w3, w2 in a block
  std::intptr_t base_ = 0;             ///< of place 0
  std::vector<std::int32_t> place_, copied_;
  std::vector<ExpertWeights> at_;
  ExpertPlaces places_;
};

std::set<int> chosen_of(const Tokens& tokens) {
  std::set<int> chosen(tokens.ids.begin(), tokens.ids.end());
  chosen.erase(-1);
  return chosen;
}

TEST(CopiedExperts, ComeOnceAndGiveTheSameBits) {
  BALEEN_NEEDS_GPU();
  // One row, both shapes of the kernel, more rows of an expert than a tile has.
  for (const auto& [routed, sums] : {std::pair{WeightFormat::kFp4, ExpertSums::kFree},
                                     {WeightFormat::kFp4, ExpertSums::kStated},
                                     {WeightFormat::kFp8, ExpertSums::kFree},
                                     {WeightFormat::kNvfp4, ExpertSums::kFree}}) {
    for (const int num_experts : {7, 40}) {
      TestCuda cuda;
      const Layer layer(cuda, {.num_experts = num_experts, .routed = routed});
      for (const std::int64_t num_rows : {1, 2, 9, 64, 70, 256}) {
        Tokens tokens(layer.geometry(), num_rows, 3, 5);
        if (num_rows > 2) tokens.ids[3] = tokens.ids[5] = -1;
        const auto want = run(cuda, layer, tokens, {.sums = sums});
        for (const int every : {1, 3, 100}) {
          SCOPED_TRACE(fmt::format("{} weights, {} sums, {} experts, those of {} n on the host, {} rows",
                                   weight_format_name(routed),
                                   sums == ExpertSums::kStated ? "stated" : "free", num_experts, every,
                                   num_rows));
          const auto on_host = [&](int expert) { return expert % every == 0; };
          const PlacedExperts placed(cuda, layer, on_host);
          EXPECT_SAME_BITS(
              run(cuda, layer, tokens, {.places = placed.places(), .at = placed.at(), .sums = sums}), want);
          std::set<int> copied;
          for (const int expert : chosen_of(tokens))
            if (on_host(expert)) copied.insert(expert);
          EXPECT_EQ(placed.copies(cuda, layer), copied);
        }
      }
    }
  }
}

TEST(CopiedExperts, TheNextStepFindsItsOwn) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {.num_experts = 24});
  const PlacedExperts placed(cuda, layer, [](int expert) { return expert % 2 == 0; });
  std::set<int> copied;
  for (std::uint32_t step = 0; step < 20; ++step) {
    const Tokens tokens(layer.geometry(), step % 2 == 0 ? 2 : 80, 2, step);
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.places = placed.places(), .at = placed.at()}),
                     run(cuda, layer, tokens));
    for (const int expert : chosen_of(tokens))
      if (expert % 2 == 0) copied.insert(expert);
    EXPECT_EQ(placed.copies(cuda, layer), copied);
  }
}

/// The released shapes of an expert, 13 MB each.
TEST(CopiedExperts, ReleasedGeometry) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {.width = 4096, .inner = 2048, .num_experts = 8});
  const PlacedExperts placed(cuda, layer, [](int expert) { return expert >= 3; });
  for (const std::int64_t num_rows : {2, 16, 200}) {
    const Tokens tokens(layer.geometry(), num_rows, 4, 21);
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.places = placed.places(), .at = placed.at()}),
                     run(cuda, layer, tokens));
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
