// The compressor on the device against the reference on the CPU: entries, rings, overlap rows, and what must
// stay untouched.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "ops/compressor/cuda/compressor.h"
#include "ops/rope/rope_frequencies.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr int kRope = 64;

struct Shape {
  int ratio = 4;
  int head_dim = 128;
  bool indexer = false;
  int rings = 1;  ///< of the shortest length

  [[nodiscard]] std::int64_t width() const { return (ratio == 4 ? 2 : 1) * head_dim; }
  [[nodiscard]] std::int64_t ring_rows() const { return rings * (ratio == 4 ? 8 : 128); }
  [[nodiscard]] int rows_per_page() const { return 256 / ratio; }
};

struct Part {
  SequenceSlice slice;  ///< first_row and num_tokens are filled in
  std::vector<float> kv, gate;
};

/// A layer's rings, overlap rows and pages, in host memory between steps. What was never written reads as
/// NaN.
class Layer {
 public:
  Layer(const Shape& shape, std::int64_t num_pages, std::int64_t num_slots = 3)
      : shape_(shape),
        num_pages_(num_pages),
        frequencies_(rope_frequencies(160000.0F, kRope, nullptr)),
        ape_(test::random_values(static_cast<std::size_t>(shape.ratio * shape.width()), 11)),
        weight_(test::random_values(static_cast<std::size_t>(shape.head_dim), 12)),
        state_(static_cast<std::size_t>(num_slots * slot_stride()), std::nanf("")),
        overlap_(static_cast<std::size_t>(shape.ratio == 4 ? num_pages * overlap_stride() : 0),
                 std::nanf("")),
        pages_(static_cast<std::size_t>(num_pages * page_stride()), std::byte{0xFF}) {}

  /// On the device if there is one, else the reference.
  void step(const std::vector<Part>& parts, test::TestCuda* cuda, std::int32_t padding_rows = 0) {
    std::vector<float> kv, gate, rows;
    std::vector<SequenceSlice> slices;
    const auto width = static_cast<std::size_t>(shape_.width());
    std::int64_t num_rows = 0;
    for (const Part& part : parts) {
      SequenceSlice slice = part.slice;
      slice.first_row = num_rows;
      slice.num_tokens = static_cast<std::int64_t>(part.kv.size() / width);
      num_rows += slice.num_tokens;
      slices.push_back(slice);
      kv.insert(kv.end(), part.kv.begin(), part.kv.end());
      gate.insert(gate.end(), part.gate.begin(), part.gate.end());
    }
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows));
    const RaggedBatch batch{tokens, slices};
    if (cuda == nullptr) {
      compressor_ref(args(kv.data(), gate.data(), width, num_rows, batch, ape_.data(), weight_.data(),
                          frequencies_.data(), state_.data(), overlap_.data(), pages_.data()));
      return;
    }
    // kv and gate side by side in one array, as one product makes them; rows of padding hold anything finite.
    for (std::size_t row = 0; row < static_cast<std::size_t>(num_rows + padding_rows); ++row) {
      for (const std::vector<float>* from : {&kv, &gate}) {
        for (std::size_t i = 0; i < width; ++i)
          rows.push_back(row < static_cast<std::size_t>(num_rows) ? (*from)[row * width + i] : 7.0F);
      }
    }
    cuda->set_batch(batch, padding_rows);
    float* both = cuda->upload(rows);
    float* state = cuda->upload(state_);
    float* overlap = cuda->upload(overlap_);
    std::byte* pages = cuda->upload(pages_);
    BALEEN_ARCH::compressor(
        args(both, both + width, 2 * width, num_rows + padding_rows, batch, cuda->upload(ape_),
             cuda->upload(weight_), cuda->upload(frequencies_), state, overlap, pages),
        cuda->context());
    cuda->synchronise();
    state_ = cuda->download(state, static_cast<std::int64_t>(state_.size()));
    overlap_ = cuda->download(overlap, static_cast<std::int64_t>(overlap_.size()));
    pages_ = cuda->download(pages, static_cast<std::int64_t>(pages_.size()));
  }

  /// All entries of all pages; NaN where none was written.
  [[nodiscard]] std::vector<float> entries() {
    std::vector<float> all;
    for (std::int32_t page = 0; page < num_pages_; ++page) {
      const std::vector<PageId> table{PageId{page}};
      for (int row = 0; row < shape_.rows_per_page(); ++row) {
        const std::vector<float> values = shape_.indexer ? test::read_row(keys(pages_.data()), table, row)
                                                         : test::read_row(latent(pages_.data()), table, row);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  [[nodiscard]] const std::vector<std::byte>& pages() const { return pages_; }
  [[nodiscard]] const std::vector<float>& state() const { return state_; }
  [[nodiscard]] const std::vector<float>& overlap() const { return overlap_; }
  [[nodiscard]] std::span<const float> slot(std::int32_t slot) const {
    return std::span(state_).subspan(static_cast<std::size_t>(slot * slot_stride()),
                                     static_cast<std::size_t>(slot_stride()));
  }

 private:
  [[nodiscard]] std::int64_t slot_stride() const { return 2 * shape_.ring_rows() * shape_.width(); }
  [[nodiscard]] std::int64_t overlap_stride() const { return 2 * kOverlapRows * shape_.head_dim; }
  [[nodiscard]] LatentFormat latent_format() const {
    return {shape_.head_dim - kRope, kRope, Precision::kReleased};
  }
  [[nodiscard]] std::int64_t page_stride() const {
    return shape_.indexer ? IndexKeyFormat{}.page_stride_bytes(shape_.rows_per_page())
                          : latent_format().page_stride_bytes(shape_.rows_per_page());
  }
  [[nodiscard]] LatentPool latent(std::byte* base) const {
    return {base, page_stride(), shape_.rows_per_page(), latent_format()};
  }
  [[nodiscard]] IndexKeyPool keys(std::byte* base) const {
    return {base, page_stride(), shape_.rows_per_page(), {}};
  }
  [[nodiscard]] CompressorArgs args(float* kv, float* gate, std::size_t stride, std::int64_t num_rows,
                                    const RaggedBatch& batch, const float* ape, const float* weight,
                                    const float* frequencies, float* state, float* overlap,
                                    std::byte* pages) const {
    const std::array<std::int64_t, 2> extents{num_rows, shape_.width()};
    const std::array<std::int64_t, 2> strides{static_cast<std::int64_t>(stride), 1};
    return {.kv = {kv, extents, strides},
            .gate = {gate, extents, strides},
            .ape = {ape, {shape_.ratio, shape_.width()}},
            .norm_weight = {weight, weight_.size()},
            .frequencies = {frequencies, frequencies_.size()},
            .ratio = shape_.ratio,
            .batch = batch,
            .state = {state, slot_stride(), shape_.ring_rows(), shape_.width()},
            .overlap = {overlap_.empty() ? nullptr : overlap, overlap_stride(), shape_.head_dim},
            .latent = shape_.indexer ? LatentPool{} : latent(pages),
            .index_key = shape_.indexer ? keys(pages) : IndexKeyPool{}};
  }

  Shape shape_;
  std::int64_t num_pages_;
  std::vector<float> frequencies_, ape_, weight_, state_, overlap_;
  std::vector<std::byte> pages_;
};

std::vector<Shape> all_shapes() {
  return {{4, 128},       {4, 512},           {128, 128},          {128, 512},
          {4, 128, true}, {4, 512, false, 2}, {128, 512, false, 2}};
}

std::string name_of(const Shape& shape) {
  return "ratio " + std::to_string(shape.ratio) + ", width " + std::to_string(shape.head_dim) +
         (shape.indexer ? ", keys" : "");
}

/// Rows `begin` to `begin + count` of a sequence whose rows are drawn from `seed`.
class Rows {
 public:
  Rows(const Shape& shape, std::int64_t num_tokens, std::uint32_t seed)
      : width_(static_cast<std::size_t>(shape.width())),
        kv_(test::random_values(static_cast<std::size_t>(num_tokens) * width_, seed)),
        gate_(test::random_values(kv_.size(), seed + 1, 4.0F)) {}

  [[nodiscard]] Part part(const SequenceSlice& at, std::int64_t begin, std::int64_t count) const {
    const auto cut = [&](const std::vector<float>& all) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(begin) * width_);
      return std::vector<float>(
          first, first + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(count) * width_));
    };
    Part part{at, cut(kv_), cut(gate_)};
    part.slice.start += begin;
    return part;
  }

 private:
  std::size_t width_;
  std::vector<float> kv_, gate_;
};

SequenceSlice sequence(std::int64_t start, std::span<const PageId> pages, std::int32_t slot) {
  return {0, 0, start, pages, pages, slot};
}

/// Rings and overlap rows are copies and one float32 sum: the same bits. Entries differ from the reference,
/// which works in float64, where a rounding to BF16 and then to e4m3 or e2m1 goes the other way: rarely, and
/// by one step.
void expect_as_reference(Layer& got, Layer& want, const std::string& where) {
  EXPECT_SAME_BITS(got.state(), want.state()) << where;
  EXPECT_SAME_BITS(got.overlap(), want.overlap()) << where;
  EXPECT_CLOSE(got.entries(), want.entries(), {.norm = 4e-3}) << where;
  std::size_t different = 0;
  for (std::size_t i = 0; i < got.pages().size(); ++i) different += got.pages()[i] != want.pages()[i] ? 1 : 0;
  EXPECT_LE(different, got.pages().size() / 500 + 2) << where;
}

TEST(CompressorOnGpu, AgreesWithTheReference) {
  BALEEN_NEEDS_GPU();
  for (const Shape& shape : all_shapes()) {
    for (const std::int64_t num_tokens : {1, 3, 4, 130, 515}) {
      for (const std::int64_t start : {0, 2, 256}) {
        test::TestCuda cuda(1 << 20);
        const std::vector<PageId> pages = test::shuffled_pages(5, 0, 1);
        Layer got(shape, 5), want(shape, 5);
        const Rows rows(shape, start + num_tokens, 3);
        const SequenceSlice at = sequence(0, pages, 1);
        // The reference fills what the sequence has before the step, for both.
        if (start > 0) {
          got.step({rows.part(at, 0, start)}, nullptr);
          want.step({rows.part(at, 0, start)}, nullptr);
        }
        got.step({rows.part(at, start, num_tokens)}, &cuda, num_tokens == 3 ? 5 : 0);
        want.step({rows.part(at, start, num_tokens)}, nullptr);
        expect_as_reference(
            got, want, name_of(shape) + ", " + std::to_string(num_tokens) + " from " + std::to_string(start));
      }
    }
  }
}

TEST(CompressorOnGpu, CutsCompanyAndPaddingDoNotShow) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kTokens = 520, kPages = 3;
  const std::vector<PageId> pages = test::shuffled_pages(kPages, 0, 1);
  const std::vector<PageId> other_pages = test::shuffled_pages(8, kPages, 2);
  std::mt19937 random(7);
  for (const Shape& shape : all_shapes()) {
    const Rows rows(shape, kTokens, 3), other(shape, 2000, 5);
    const SequenceSlice at = sequence(0, pages, 1), beside = sequence(0, other_pages, 0);
    Layer whole(shape, 11);
    {
      test::TestCuda cuda(1 << 20);
      whole.step({rows.part(at, 0, kTokens)}, &cuda);
    }
    std::vector<std::vector<std::int64_t>> cuts{{1}, {3, 1}, {5}, {127, 1, 2}, {255, 1}};
    for (int i = 0; i < 2; ++i) {
      std::vector<std::int64_t> pieces(5);
      for (std::int64_t& piece : pieces) piece = 1 + static_cast<std::int64_t>(random() % 200);
      cuts.push_back(pieces);
    }
    for (const std::vector<std::int64_t>& pieces : cuts) {
      const bool single = pieces == std::vector<std::int64_t>{1};
      const std::int64_t num_tokens = single ? 140 : kTokens;  // a step each takes its time
      Layer cut(shape, 11), all(shape, 11);
      test::TestCuda cuda(1 << 20);
      all.step({rows.part(at, 0, num_tokens)}, &cuda);
      for (std::int64_t begin = 0, round = 0; begin < num_tokens; ++round) {
        const std::int64_t count =
            std::min(num_tokens - begin, pieces[static_cast<std::size_t>(round) % pieces.size()]);
        const Part mine = rows.part(at, begin, count), theirs = other.part(beside, 3 * round, 3);
        if (round % 2 == 0) {
          cut.step({theirs, mine}, &cuda, static_cast<std::int32_t>(round % 3));
        } else {
          cut.step({mine, theirs}, &cuda, static_cast<std::int32_t>(round % 3));
        }
        begin += count;
      }
      const std::string where = name_of(shape) + ", pieces of " + std::to_string(pieces[0]);
      const auto mine = static_cast<std::ptrdiff_t>(cut.pages().size() / 11 * kPages);
      EXPECT_TRUE(std::equal(cut.pages().begin(), cut.pages().begin() + mine, all.pages().begin())) << where;
      EXPECT_SAME_BITS(cut.slot(1), all.slot(1)) << where;
      const std::size_t my_overlap = cut.overlap().size() / 11 * kPages;
      EXPECT_SAME_BITS(std::span(cut.overlap()).first(my_overlap), std::span(all.overlap()).first(my_overlap))
          << where;
      if (!single) {
        EXPECT_TRUE(std::equal(all.pages().begin(), all.pages().end(), whole.pages().begin())) << where;
      }
    }
  }
}

TEST(CompressorOnGpu, ManySequencesOfOneTokenEach) {
  BALEEN_NEEDS_GPU();
  for (const Shape& shape : all_shapes()) {
    constexpr std::int32_t kSequences = 70;
    test::TestCuda cuda(1 << 20);
    Layer got(shape, kSequences, kSequences), want(shape, kSequences, kSequences);
    std::vector<std::vector<PageId>> tables;
    for (std::int32_t i = 0; i < kSequences; ++i) tables.push_back({PageId{kSequences - 1 - i}});
    std::vector<Part> before, step;
    for (std::int32_t i = 0; i < kSequences; ++i) {
      const std::int64_t length = 100 + i;  // every phase of a block of 4; one ends a block of 128
      const Rows rows(shape, length + 1, static_cast<std::uint32_t>(10 * i));
      const SequenceSlice at = sequence(0, tables[static_cast<std::size_t>(i)], i);
      before.push_back(rows.part(at, 0, length));
      step.push_back(rows.part(at, length, 1));
    }
    got.step(before, nullptr);
    want.step(before, nullptr);
    got.step(step, &cuda, 9);
    want.step(step, nullptr);
    expect_as_reference(got, want, name_of(shape));
  }
}

TEST(CompressorOnGpu, EntriesThatExistAreLeftAlone) {
  BALEEN_NEEDS_GPU();
  const std::vector<PageId> pages{PageId{2}, PageId{0}, PageId{1}};
  for (const Shape& shape : all_shapes()) {
    test::TestCuda cuda(1 << 20);
    Layer got(shape, 3), want(shape, 3);
    const Rows rows(shape, 600, 3);
    SequenceSlice replayed = sequence(0, pages, 0);
    replayed.entries_until = 512;
    got.step({rows.part(replayed, 0, 600)}, &cuda);
    want.step({rows.part(replayed, 0, 600)}, nullptr);
    expect_as_reference(got, want, name_of(shape));
  }
}

TEST(CompressorOnGpu, FarPositions) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kStart = 1'000'000;
  std::vector<PageId> pages(3911, PageId::kNone);
  for (std::int32_t i = 0; i < 3; ++i) pages[static_cast<std::size_t>(kStart / 256 + i)] = PageId{i};
  for (const Shape& shape : all_shapes()) {
    test::TestCuda cuda(1 << 20);
    Layer got(shape, 3), want(shape, 3);
    const Rows rows(shape, 300, 3);
    const std::int64_t aligned =
        kStart / 128 * 128;  // whose first entry reads nothing that was not written, but for overlap
    SequenceSlice at = sequence(aligned, pages, 2);
    at.entries_until = aligned + 128;
    got.step({rows.part(at, 0, 300)}, &cuda);
    want.step({rows.part(at, 0, 300)}, nullptr);
    expect_as_reference(got, want, name_of(shape));
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
