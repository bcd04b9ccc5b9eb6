// Experts in pinned memory of the host: those that some token has are copied, the others are not, and no bit
// of the output depends on where an expert lay.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "ops/experts/stated_sums.h"
#include "ops/route/cuda/route.h"
#include "tests/support/declared_launch.h"
#include "tests/support/expert_problem.h"

namespace baleen::BALEEN_ARCH {
namespace {

/// A layer's experts, a block each, on one row of places that spans both memories; behind those on the device
/// a buffer with as many places for copies as there are experts.
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
    buffer_ = place_of(at_device) + num_experts_;
    // No slots: whatever comes goes to the buffer.
    places_.slots = {.buffer = buffer_,
                     .buffered = cuda.upload(copied_),
                     .copied = copied,
                     .state = cuda.upload(std::vector<ExpertSlotState>(1)),
                     .counts = cuda.upload(std::vector<ExpertFetchCounts>(1)),
                     .routed = cuda.upload(std::vector<std::int32_t>(1))};
  }

  [[nodiscard]] const ExpertPlaces& places() const { return places_; }
  [[nodiscard]] std::span<const ExpertWeights> at() const { return at_; }

  /// Of the experts on the host: those whose copies are in the buffer, whole. Nothing else is there, and no
  /// place is left out before one that is used.
  [[nodiscard]] std::set<int> copies(TestCuda& cuda, const Layer& layer) const {
    std::set<int> found;
    int num_used = 0;
    for (int place = 0; place < num_experts_; ++place) {
      const std::vector<std::byte> block = cuda.download(address(buffer_ + place), unit_);
      if (std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0xFF}; })) continue;
      EXPECT_EQ(num_used++, place);
      bool is_an_expert = false;
      for (int expert = 0; expert < num_experts_; ++expert) {
        const auto i = static_cast<std::size_t>(expert);
        if (copied_[i] == place_[i] || block != block_of(layer.host()[i])) continue;
        found.insert(expert);
        is_an_expert = true;
      }
      EXPECT_TRUE(is_an_expert) << "place " << place;
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
  std::int32_t buffer_ = 0;            ///< its first place
  std::vector<std::int32_t> place_, copied_;
  std::vector<ExpertWeights> at_;
  ExpertPlaces places_;
};

/// A thread that answers kernels' requests for rows of `layer`'s experts.
class HostCores {
 public:
  HostCores(TestCuda& cuda, const Layer& layer)
      : layer_(layer),
        width_(layer.geometry().width),
        request_(std::int64_t{sizeof(HostExpertRequest)}, pinned_),
        codes_(kMaxHostTokens * width_, pinned_),
        scales_(kMaxHostTokens * width_ / kActivationGroup * std::int64_t{sizeof(float)}, pinned_),
        y_(kMaxHostRows * width_ * std::int64_t{sizeof(Bf16Bits)}, pinned_),
        state_(cuda.upload(std::vector<HostExpertState>(1))),
        thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  /// Of kernels that split by these times.
  [[nodiscard]] ExpertPlaces computing(ExpertPlaces places, const HostExpertTimes& times) const {
    request().times = times;
    places.slots.host = {.request = &request(),
                         .state = state_,
                         .codes = reinterpret_cast<std::uint8_t*>(codes_.data()),
                         .scales = reinterpret_cast<float*>(scales_.data()),
                         .y = reinterpret_cast<const Bf16Bits*>(y_.data()),
                         .block = 0};
    return places;
  }
  /// Experts that requests have named since the latest call of this.
  [[nodiscard]] std::set<int> asked() { return std::exchange(asked_, {}); }

 private:
  [[nodiscard]] HostExpertRequest& request() const {
    return *reinterpret_cast<HostExpertRequest*>(request_.data());
  }
  void serve(const std::stop_token& stop) {
    HostExpertRequest& request = this->request();
    for (std::uint64_t answered = 0; !stop.stop_requested();) {
      const std::uint64_t posted = std::atomic_ref(request.posted).load(std::memory_order_acquire);
      if (posted == answered) continue;
      const Fp8Rows x{reinterpret_cast<std::uint8_t*>(codes_.data()),
                      reinterpret_cast<float*>(scales_.data()), host_scale_stride(request.num_tokens)};
      for (std::int32_t i = 0; i < request.num_experts; ++i) {
        const std::int32_t first = request.first_rows[i];
        asked_.insert(request.experts[i]);
        stated_expert_ref({.expert = &layer_.host()[static_cast<std::size_t>(request.experts[i])],
                           .x = x,
                           .row_index = request.tokens + first,
                           .weights = request.weights + first,
                           .num_rows = request.first_rows[i + 1] - first,
                           .y = reinterpret_cast<Bf16Bits*>(y_.data()) + first * width_},
                          Options().limit);
      }
      answered = posted;
      std::atomic_ref(request.answered).store(answered, std::memory_order_release);
    }
  }

  const Layer& layer_;
  std::int64_t width_;
  CudaPinnedMemory pinned_;
  Buffer request_, codes_, scales_, y_;
  HostExpertState* state_;
  std::set<int> asked_;  ///< by the thread, while a call waits for it
  std::jthread thread_;
};

std::set<int> chosen_of(const Tokens& tokens) {
  std::set<int> chosen(tokens.ids.begin(), tokens.ids.end());
  chosen.erase(-1);
  return chosen;
}

TEST(CopiedExperts, ComeOnceAndGiveTheSameBits) {
  BALEEN_NEEDS_GPU();
  // One row, both shapes of the kernel, more rows of an expert than a tile has.
  const Geometry fp4, v41{.shared = WeightFormat::kFp8x32, .group = kSmallActivationGroup};
  for (const auto& [kind, sums] : {std::pair{fp4, ExpertSums::kFree},
                                   {fp4, ExpertSums::kStated},
                                   {v41, ExpertSums::kFree},
                                   {v41, ExpertSums::kStated},
                                   {Geometry{.routed = WeightFormat::kFp8}, ExpertSums::kFree},
                                   {Geometry{.routed = WeightFormat::kNvfp4}, ExpertSums::kFree}}) {
    for (const int num_experts : {7, 40}) {
      TestCuda cuda;
      Geometry geometry = kind;
      geometry.num_experts = num_experts;
      const Layer layer(cuda, geometry);
      for (const std::int64_t num_rows : {1, 2, 9, 64, 70, 256}) {
        Tokens tokens(layer.geometry(), num_rows, 3, 5);
        if (num_rows > 2) tokens.ids[3] = tokens.ids[5] = -1;
        const auto want = run(cuda, layer, tokens, {.sums = sums});
        for (const int every : {1, 3, 100}) {
          SCOPED_TRACE(
              fmt::format("{} weights, groups of {}, {} sums, {} experts, those of {} n on the host, "
                          "{} rows",
                          weight_format_name(geometry.routed), geometry.group,
                          sums == ExpertSums::kStated ? "stated" : "free", num_experts, every, num_rows));
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

/// Other experts each time, chosen right before; nothing in between waits for the host. With the order of
/// launches, which says what may be read while experts still come.
TEST(CopiedExperts, ComeBesideWhatIsReadEarly) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kSelected = 3, kCalls = 100;
  constexpr int kExperts = 24;
  const Geometry fp4{.num_experts = kExperts},
      v41{.num_experts = kExperts, .shared = WeightFormat::kFp8x32, .group = kSmallActivationGroup};
  for (const Geometry& geometry : {fp4, v41}) {
    TestCuda cuda;
    const Layer layer(cuda, geometry);
    // Half of the calls have experts that come, the others none.
    const PlacedExperts placed(cuda, layer, [](int expert) { return expert % 5 == 0; });
    const std::int64_t width = geometry.width;
    for (const std::int64_t num_rows : {1, 4}) {
      SCOPED_TRACE(fmt::format("groups of {}, {} rows", geometry.group, num_rows));
      const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
      const std::vector<SequenceSlice> slices{{0, num_rows, 5, {}, {}}};
      cuda.set_batch({tokens, slices});
      const View<const Bf16Bits, 2> x(
          cuda.upload_bf16(random_values(static_cast<std::size_t>(num_rows * width), 2, 0.02F)),
          {num_rows, width});
      const float* const logits =
          cuda.upload(random_values(static_cast<std::size_t>(kCalls * num_rows * kExperts), 1, 0.5F));
      const View<std::int32_t, 2> ids(cuda.allocate<std::int32_t>(num_rows * kSelected),
                                      {num_rows, kSelected});
      const Activations<2> weights(cuda.allocate<float>(num_rows * kSelected), {num_rows, kSelected});
      LaunchOrder order(cuda.context().stream);
      const auto all_outputs = [&](const ExpertPlaces& places, std::span<const ExpertWeights> routed,
                                   LaunchOrder* known) {
        cuda.context().stream.order = known;
        Bf16Bits* const outs = cuda.allocate<Bf16Bits>(kCalls * num_rows * width);
        for (std::int64_t call = 0; call < kCalls; ++call) {
          test::run_declared<ops::Route>(
              BALEEN_ARCH::route,
              {.logits = ConstActivations<2>(logits + call * num_rows * kExperts, {num_rows, kExperts}),
               .ids = ids,
               .weights = weights},
              cuda.context());
          test::run_declared<ops::Experts>(
              BALEEN_ARCH::experts,
              {.x = x,
               .ids = ids,
               .weights = weights,
               .routed = routed,
               .places = places,
               .shared = &layer.device_shared(),
               .swiglu_limit = 10.0F,
               .out = View<Bf16Bits, 2>(outs + call * num_rows * width, {num_rows, width})},
              cuda.context());
        }
        cuda.context().stream.order = nullptr;
        return cuda.download_bf16(outs, kCalls * num_rows * width);
      };
      EXPECT_SAME_BITS(all_outputs(placed.places(), placed.at(), &order),
                       all_outputs({}, layer.device(), nullptr));
    }
  }
}

TEST(CopiedExperts, TheNextStepFindsItsOwn) {
  BALEEN_NEEDS_GPU();
  TestCuda cuda;
  const Layer layer(cuda, {.num_experts = 24});
  const PlacedExperts placed(cuda, layer, [](int expert) { return expert % 2 == 0; });
  for (std::uint32_t step = 0; step < 20; ++step) {
    const Tokens tokens(layer.geometry(), step % 2 == 0 ? 2 : 80, 2, step);
    EXPECT_SAME_BITS(run(cuda, layer, tokens, {.places = placed.places(), .at = placed.at()}),
                     run(cuda, layer, tokens));
    // Others are there from earlier steps.
    const std::set<int> copied = placed.copies(cuda, layer);
    for (const int expert : chosen_of(tokens)) EXPECT_TRUE(expert % 2 != 0 || copied.contains(expert));
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

TEST(ComputedExperts, GiveTheSameBitsWhoeverComputes) {
  BALEEN_NEEDS_GPU();
  constexpr std::uint32_t kNever = 1'000'000'000;
  for (const int num_experts : {7, 40}) {
    TestCuda cuda;
    const Layer layer(cuda, {.num_experts = num_experts});
    HostCores cores(cuda, layer);
    for (const std::int64_t num_rows : {1, 2, 3, 5, 8, 64, 70}) {
      for (const bool quantised : {false, true}) {
        Tokens tokens(layer.geometry(), num_rows, 3, 5);
        if (num_rows > 2) tokens.ids[3] = tokens.ids[5] = -1;
        const Options plain{.quantised = quantised, .sums = ExpertSums::kStated};
        const auto want = run(cuda, layer, tokens, plain);
        for (const int every : {1, 3}) {
          const auto on_host = [&](int expert) { return expert % every == 0; };
          std::set<int> away;
          for (const int expert : chosen_of(tokens))
            if (on_host(expert)) away.insert(expert);
          for (const HostExpertTimes& times :
               {HostExpertTimes{1, kNever, 0, 0}, {kNever, 1, 1, 0}, {1000, 1000, 0, 0}}) {
            SCOPED_TRACE(fmt::format("{} experts, those of {} n on the host, {} rows, {} and {} ns",
                                     num_experts, every, num_rows, times.fetch_piece, times.compute_expert));
            const PlacedExperts placed(cuda, layer, on_host);
            Options options = plain;
            options.places = cores.computing(placed.places(), times);
            options.at = placed.at();
            EXPECT_SAME_BITS(run(cuda, layer, tokens, options), want);
            const std::set<int> asked = cores.asked(), copied = placed.copies(cuda, layer);
            // Each away is fetched or computed, never both.
            std::set<int> both = asked;
            both.insert(copied.begin(), copied.end());
            EXPECT_EQ(both, away);
            EXPECT_EQ(asked.size() + copied.size(), away.size());
            const bool computes = num_rows <= kMaxHostTokens;
            if (!computes || times.compute_expert == kNever) {
              EXPECT_TRUE(asked.empty());
            } else if (times.fetch_piece == kNever) {
              EXPECT_EQ(asked, away);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
