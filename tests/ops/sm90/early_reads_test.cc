// Kernels that begin before those in front of them have ended, with a kernel in front that writes late: what
// they read early is there wherever the order of launches says so. Where it is known that the late kernel
// writes nothing, they read too early, and the test sees it.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "cuda/cuda_graph.h"
#include "late_copy.h"
#include "ops/compressor/cuda/compressor.h"
#include "ops/indexer/cuda/indexer.h"
#include "ops/rope/cuda/rope.h"
#include "ops/rope/rope_frequencies.h"
#include "ops/route/cuda/route.h"
#include "tests/support/declared_launch.h"
#include "tests/support/expert_problem.h"

namespace baleen::sm90 {
namespace {

using test::run_declared;

/// Long enough for the kernels behind to begin and to do all that they do before their wait.
constexpr std::int64_t kDelayUs = 1000;

/// Whether the order of launches is known what the late kernel reads and writes.
enum class Known : bool { kNo, kYes };

class EarlyReadsSm90 : public ::testing::Test {
 protected:
  void SetUp() override {
    BALEEN_NEEDS_GPU();
    cuda_.emplace();
    order_.emplace(cuda_->context().stream);
  }

  std::optional<TestCuda> cuda_;
  std::optional<LaunchOrder> order_;

  /// Bytes that a late kernel copies.
  struct LateCopy {
    const std::byte* from;
    std::byte* to;
    std::int64_t bytes;
  };
  void copy_late(const LateCopy& copy, Known known) {
    if (LaunchOrder* const order = cuda_->context().stream.order; order != nullptr) {
      Accesses& accesses = order->begin_operation();
      if (known == Known::kYes)
        accesses.read(MemoryRange{copy.from, copy.bytes}).write(MemoryRange{copy.to, copy.bytes});
    }
    test::copy_late(
        {reinterpret_cast<const std::uint32_t*>(copy.from), static_cast<std::size_t>(copy.bytes / 4)},
        reinterpret_cast<std::uint32_t*>(copy.to), kDelayUs, cuda_->context().stream);
  }

  /// `queue` in the order of the calls, every kernel reading behind its own wait.
  void run_in_order(const std::function<void()>& queue) {
    cuda_->context().stream.order = nullptr;
    queue();
    cuda_->synchronise();
  }
  /// `queue` as a step is captured and replayed. `reset` is called before each time that it runs.
  void replay(const std::function<void()>& reset, const std::function<void()>& queue) {
    run_in_order(queue);  // loads kernels
    cuda_->context().stream.order = &*order_;
    order_->forget();
    const CudaGraph graph(cuda_->context().stream, queue);
    cuda_->context().stream.order = nullptr;
    reset();
    cuda_->synchronise();
    graph.launch(cuda_->context().stream);
    cuda_->synchronise();
  }

  void copy_now(const LateCopy& copy) {
    check_cuda(cudaMemcpyAsync(copy.to, copy.from, static_cast<std::size_t>(copy.bytes),
                               cudaMemcpyDeviceToDevice, cuda_->context().stream),
               "copying");
  }
};

/// One token in front of a layer's compressor of index keys, indexer and rotation of queries. What
/// projections make of it lies in one array, of which there are two versions.
class IndexedToken : public EarlyReadsSm90 {
 protected:
  static constexpr std::int64_t kDim = 128, kHeads = 64, kPairs = 32, kTopK = 512, kRowsPerPage = 64;
  static constexpr std::int64_t kStateWidth = 2 * kDim, kRingRows = 8, kNumKeys = 1500;
  static constexpr std::int64_t kPosition = 4 * kNumKeys - 1;  // completes the last key
  static constexpr std::int64_t kQueryBytes = 2 * kHeads * kDim, kWeightBytes = 2 * 128;
  static constexpr std::int64_t kRowBytes = 4 * kStateWidth;
  static constexpr std::int64_t kMadeBytes = kQueryBytes + kWeightBytes + 2 * kRowBytes;

  void SetUp() override {
    EarlyReadsSm90::SetUp();
    if (IsSkipped()) return;
    for (std::int64_t i = 0; i <= kNumKeys / kRowsPerPage; ++i) pages_.push_back(static_cast<PageId>(i));
    for (std::int64_t i = 0; i <= kPosition / 256; ++i) window_pages_.push_back(static_cast<PageId>(i));
    slices_ = {{0, 1, kPosition, pages_, window_pages_}};
    cuda_->set_batch(batch());
    made_ = cuda_->allocate<std::byte>(kMadeBytes);
    for (std::uint32_t version = 0; version < 2; ++version) {
      std::byte* const array = versions_[version] = cuda_->allocate<std::byte>(kMadeBytes);
      const auto put = [&](std::int64_t offset, const void* from, std::int64_t bytes) {
        copy_now({static_cast<const std::byte*>(from), array + offset, bytes});
      };
      put(0, cuda_->upload_bf16(values(kHeads * kDim, 1 + version)), kQueryBytes);
      put(kQueryBytes, cuda_->upload_bf16(values(kWeightBytes / 2, 3 + version)), kWeightBytes);
      put(kQueryBytes + kWeightBytes, cuda_->upload(values(2 * kStateWidth, 5 + version)), 2 * kRowBytes);
    }
    frequencies_ = rope_frequencies(160000.0F, 2 * kPairs, nullptr);
    frequencies_on_device_ = cuda_->upload(frequencies_);
    angles_ = cuda_->upload(std::vector<float>(kRotatedRows * kPairs, 0.5F));
    rotated_ = cuda_->upload_bf16(values(kRotatedRows * kHeads * kDim, 7));
    ape_ = cuda_->upload(values(4 * kStateWidth, 8));
    norm_ = cuda_->upload(values(kDim, 9));
    state_ = cuda_->upload(values(2 * kRingRows * kStateWidth, 10));
    selected_ = cuda_->allocate<std::int32_t>(kTopK);
    keys_ = make_keys();
  }

  static std::vector<float> values(std::int64_t count, std::uint32_t seed) {
    return random_values(static_cast<std::size_t>(count), seed);
  }
  /// Any codes are keys; all scales alike, so that none is NaN.
  IndexKeyPool make_keys() {
    const IndexKeyFormat format{};
    const std::int64_t stride = format.page_stride_bytes(kRowsPerPage);
    std::vector<std::byte> bytes(static_cast<std::size_t>(stride) * pages_.size(), std::byte{127});
    std::uint32_t random = 1;
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      for (std::int64_t i = 0; i < kRowsPerPage * kDim / 2; ++i) {
        random = random * 1664525 + 1013904223;
        bytes[page * static_cast<std::size_t>(stride) + static_cast<std::size_t>(i)] =
            static_cast<std::byte>(random >> 24);
      }
    }
    return {cuda_->upload(bytes), stride, kRowsPerPage, format, std::ssize(pages_)};
  }
  [[nodiscard]] RaggedBatch batch() const { return {tokens_, slices_}; }

  [[nodiscard]] LateCopy making(std::int64_t version) const {
    return {versions_[version], made_, kMadeBytes};
  }
  void rotate(std::int64_t num_rows) {
    const ConstActivations<2> angles(angles_, {num_rows, kPairs});
    run_declared<ops::Rope>(
        sm90::rope,
        {.x = View<Bf16Bits, 3>(rotated_, {num_rows, kHeads, kDim}), .cosine = angles, .sine = angles},
        cuda_->context());
  }
  void pool() {
    auto* const rows = reinterpret_cast<float*>(made_ + kQueryBytes + kWeightBytes);
    run_declared<ops::Compressor>(sm90::compressor,
                                  {.kv = {rows, {1, kStateWidth}},
                                   .gate = {rows + kStateWidth, {1, kStateWidth}},
                                   .ape = {ape_, {4, kStateWidth}},
                                   .norm_weight = {norm_, kDim},
                                   .frequencies = {frequencies_on_device_, frequencies_.size()},
                                   .ratio = 4,
                                   .batch = batch(),
                                   .state = {state_, 2 * kRingRows * kStateWidth, kRingRows, kStateWidth, 1},
                                   .index_key = keys_},
                                  cuda_->context());
  }
  void select() {
    const ConstActivations<2> angles(angles_, {1, kPairs});
    const auto* const made = reinterpret_cast<const Bf16Bits*>(made_);
    run_declared<ops::Indexer>(sm90::indexer,
                               {.q = View<const Bf16Bits, 3>(made, {1, kHeads, kDim}),
                                .head_weights = View<const Bf16Bits, 2>(made + kQueryBytes / 2, {1, kHeads}),
                                .cosine = angles,
                                .sine = angles,
                                .batch = batch(),
                                .keys = keys_,
                                .selected = {selected_, {1, kTopK}}},
                               cuda_->context());
  }
  std::vector<std::int32_t> selected() { return cuda_->download(selected_, kTopK); }
  std::vector<std::byte> last_page() {
    return cuda_->download(keys_.page(std::ssize(pages_) - 1), keys_.page_stride_bytes);
  }

  /// Version `version` made in good time, then all of it.
  void make_and_select(std::int64_t version) {
    run_in_order([&] {
      copy_now(making(version));
      pool();
      select();
    });
  }
  /// The old version of what is made, and of the key that is pooled from it.
  void reset() { make_and_select(0); }

  static constexpr std::int64_t kRotatedRows = 32;
  std::vector<PageId> pages_, window_pages_;
  std::vector<TokenId> tokens_ = std::vector<TokenId>(1);
  std::vector<SequenceSlice> slices_;
  std::byte* made_ = nullptr;
  std::array<std::byte*, 2> versions_{};
  std::vector<float> frequencies_;
  const float *frequencies_on_device_ = nullptr, *angles_ = nullptr, *ape_ = nullptr, *norm_ = nullptr;
  Bf16Bits* rotated_ = nullptr;
  float* state_ = nullptr;
  std::int32_t* selected_ = nullptr;
  IndexKeyPool keys_;
};

/// As a decode step queues them.
TEST_F(IndexedToken, IsReadBesideTheRotationOfQueries) {
  make_and_select(0);
  const std::vector<std::int32_t> old = selected();
  make_and_select(1);
  const std::vector<std::int32_t> wanted = selected();
  ASSERT_NE(old, wanted);
  replay([&] { reset(); },
         [&] {
           copy_late(making(1), Known::kYes);
           rotate(kRotatedRows);
           pool();
           const MemoryRange queries{made_, kQueryBytes + kWeightBytes};  // the compressor adds to its gates
           const bool may_begin = order_->is_settled(cuda_->context().stream, Accesses().read(queries));
           EXPECT_TRUE(may_begin || cuda_->context().stream.order == nullptr);
           select();
         });
  EXPECT_EQ(selected(), wanted);
}

/// With --cp a rank may attend with no row: then no kernel is between the messages that bring the
/// compressor's rows and the compressor.
TEST_F(IndexedToken, IsReadInTimeWhereNoQueriesAreRotated) {
  make_and_select(1);
  const std::vector<std::int32_t> wanted = selected();
  for (const Known known : {Known::kYes, Known::kNo}) {
    replay([&] { reset(); },
           [&] {
             rotate(kRotatedRows);
             copy_late(making(1), known);
             rotate(0);
             pool();
             select();
           });
    EXPECT_EQ(selected() == wanted, known == Known::kYes);
  }
}

TEST_F(IndexedToken, QueriesAreReadInTime) {
  for (const Known known : {Known::kYes, Known::kNo}) {
    replay([&] { reset(); },
           [&] {
             rotate(kRotatedRows);
             copy_late(making(1), known);
             select();
           });
    const std::vector<std::int32_t> got = selected();
    run_in_order([&] { select(); });  // of the same queries and keys
    EXPECT_EQ(got == selected(), known == Known::kYes);
  }
}

/// A kernel that still reads what the compressor writes before its wait.
TEST_F(IndexedToken, KeysAreNotWrittenWhileTheyAreRead) {
  std::byte* const read = cuda_->allocate<std::byte>(keys_.page_stride_bytes);
  make_and_select(1);
  const std::vector<std::byte> new_page = last_page();
  make_and_select(0);
  const std::vector<std::byte> old_page = last_page();
  ASSERT_NE(old_page, new_page);
  for (const Known known : {Known::kYes, Known::kNo}) {
    replay(
        [&] {
          reset();
          copy_now(making(1));
        },
        [&] {
          rotate(kRotatedRows);
          copy_late({keys_.page(std::ssize(pages_) - 1), read, keys_.page_stride_bytes}, known);
          rotate(0);
          pool();
        });
    EXPECT_EQ(last_page(), new_page);
    EXPECT_EQ(cuda_->download(read, keys_.page_stride_bytes) == old_page, known == Known::kYes);
  }
}

/// x of one to four tokens, beside the route that chooses their experts.
TEST_F(EarlyReadsSm90, ExpertsReadXBesideTheRouteAndNoEarlier) {
  const Geometry geometry{.width = 512, .inner = 384, .num_experts = 16};
  const Layer layer(*cuda_, geometry);
  constexpr std::int64_t kSelected = 4, kRows = 3;
  const std::int64_t width = geometry.width, bytes = 2 * kRows * width;
  const std::vector<TokenId> tokens(kRows);
  const std::vector<SequenceSlice> slices{{0, kRows, 5, {}, {}}};
  cuda_->set_batch({tokens, slices});
  const auto values = [](std::int64_t count, std::uint32_t seed) {
    return random_values(static_cast<std::size_t>(count), seed, 0.5F);
  };
  const float* logits = cuda_->upload(values(kRows * geometry.num_experts, 1));
  const Bf16Bits* const versions[] = {cuda_->upload_bf16(values(kRows * width, 2)),
                                      cuda_->upload_bf16(values(kRows * width, 3))};
  Bf16Bits *const x = cuda_->allocate<Bf16Bits>(kRows * width), *const out =
                                                                    cuda_->allocate<Bf16Bits>(kRows * width);
  const View<std::int32_t, 2> ids(cuda_->allocate<std::int32_t>(kRows * kSelected), {kRows, kSelected});
  const Activations<2> weights(cuda_->allocate<float>(kRows * kSelected), {kRows, kSelected});
  const auto making = [&](int version) {
    return LateCopy{reinterpret_cast<const std::byte*>(versions[version]), reinterpret_cast<std::byte*>(x),
                    bytes};
  };
  const auto choose = [&] {
    run_declared<ops::Route>(sm90::route,
                             {.logits = ConstActivations<2>(logits, {kRows, geometry.num_experts}),
                              .ids = ids,
                              .weights = weights},
                             cuda_->context());
  };
  const auto compute = [&] {
    run_declared<ops::Experts>(sm90::experts,
                               {.x = View<const Bf16Bits, 2>(x, {kRows, width}),
                                .ids = ids,
                                .weights = weights,
                                .routed = layer.device(),
                                .shared = &layer.device_shared(),
                                .swiglu_limit = 10.0F,
                                .out = View<Bf16Bits, 2>(out, {kRows, width})},
                               cuda_->context());
  };
  const auto reset = [&] { copy_now(making(0)); };
  run_in_order([&] {
    copy_now(making(1));
    choose();
    compute();
  });
  const std::vector<float> wanted = cuda_->download_bf16(out, kRows * width);
  for (const Known known : {Known::kYes, Known::kNo}) {
    replay(reset, [&] {
      choose();
      copy_late(making(1), known);
      choose();
      compute();
    });
    EXPECT_TRUE(cuda_->download_bf16(out, kRows * width) == wanted) << "the route is between them";
    replay(reset, [&] {
      choose();
      copy_late(making(1), known);
      compute();
    });
    EXPECT_EQ(cuda_->download_bf16(out, kRows * width) == wanted, known == Known::kYes);
  }
}

}  // namespace
}  // namespace baleen::sm90
