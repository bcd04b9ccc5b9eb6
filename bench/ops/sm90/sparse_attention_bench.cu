// Attention on the device, on the shapes of the released models: decode steps (2 rows a sequence) and prefill chunks. Each
// case is verified first (one query's head against the reference), then timed. Bytes: cache rows once for each query that
// sees them, queries, outputs. FLOPs: both products.
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/support/cuda_bench.h"
#include "ops/rope/rope.h"
#include "ops/sparse_attention/sm90/sparse_attention.h"
#include "tests/support/cache_pages.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::sm90 {
namespace {

constexpr std::int64_t kHeadDim = 512, kNumPairs = 32;
constexpr double kFarBeyondL2 = 1e9;  ///< a launch that evicts its own beginning
constexpr LatentFormat kFormat{448, 64, Precision::kReleased};

struct Case {
  std::string name;
  std::int64_t num_sequences;
  std::int64_t num_tokens;  ///< of each
  std::int64_t num_heads;
  int ratio;
  std::int64_t num_selected;  ///< ratio 4
  std::int64_t num_entries;   ///< that exist
  std::int64_t window_tokens;
  std::string against;
};

/// Device pages that repeat a few encoded ones.
class RepeatedPages {
 public:
  RepeatedPages(int rows_per_page, std::int64_t num_pages, test::TestCuda& cuda)
      : host_(kFormat, rows_per_page, kDistinct), device_(host_.pool()) {
    std::vector<PageId> table;
    for (std::int32_t page = 0; page < kDistinct; ++page) table.push_back(static_cast<PageId>(page));
    const std::vector<float> values = test::random_values(kHeadDim + 4096, 3);
    for (std::int64_t row = 0; row < kDistinct * rows_per_page; ++row) {
      test::write_row(host_.pool(), table, row,
                      std::span(values).subspan(static_cast<std::size_t>(row * 37 % 4096), kHeadDim));
    }
    const auto size = static_cast<std::int64_t>(host_.bytes().size());
    const std::int64_t num_copies = (num_pages + kDistinct - 1) / kDistinct;
    device_.base = cuda.allocate<std::byte>(num_copies * size);
    for (std::int64_t i = 0; i < num_copies; ++i)
      cuda.memory().upload(device_.base + i * size, host_.bytes());
  }
  [[nodiscard]] const LatentPool& device() const { return device_; }
  [[nodiscard]] const LatentPool& host() const { return host_.pool(); }
  [[nodiscard]] static std::vector<PageId> on_host(std::vector<PageId> table) {
    for (PageId& page : table) page = static_cast<PageId>(static_cast<std::int32_t>(page) % kDistinct);
    return table;
  }

 private:
  static constexpr std::int32_t kDistinct = 32;

  test::LatentPages host_;
  LatentPool device_;
};

struct Input {
  std::vector<std::vector<PageId>> pages, window_pages;
  std::vector<SequenceSlice> slices;
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> selected;
  std::vector<float> q;  ///< of the row that is verified
  DeviceBatch batch;
  SparseAttentionArgs args;
  RopeArgs turn;
};

void run(const Case& c) {
  test::TestCuda cuda(sm90::sparse_attention_scratch_bytes(kHeadDim, 4096, 256, 1 << 20));
  const std::int64_t num_rows = c.num_sequences * c.num_tokens, width = c.num_heads * kHeadDim;
  const std::int64_t num_listed = c.ratio == 4 ? c.num_selected : c.ratio == 0 ? 0 : c.num_entries;
  // The last query sees num_entries; those before it at most a few fewer.
  const std::int64_t end = c.ratio == 4
                               ? 4 * c.num_entries + c.num_tokens
                               : std::max<std::int64_t>(c.num_entries * c.ratio, 1024) + c.num_tokens;
  const std::int64_t start = end - c.num_tokens;
  const double rows_bytes = static_cast<double>(num_rows * (c.window_tokens + num_listed)) * 584;
  const double bytes = rows_bytes + static_cast<double>(4 * num_rows * width);
  const double flops =
      static_cast<double>(num_rows * (c.window_tokens + num_listed) * c.num_heads) * 4 * kHeadDim;
  const int num_inputs = std::min(bench::inputs_beyond_l2(bytes), bytes > kFarBeyondL2 ? 1 : 32);

  const std::int64_t num_pages = end / kPageTokens + 1, first_window_page = (start - 128) / kPageTokens;
  const std::int64_t num_window_pages = num_pages - first_window_page;
  const std::int64_t num_lists = num_inputs * c.num_sequences;
  RepeatedPages window(256, num_lists * num_window_pages, cuda);
  RepeatedPages compressed(c.ratio == 0 ? 1 : 256 / c.ratio, c.ratio == 0 ? 1 : num_lists * num_pages, cuda);

  const std::vector<float> sink = test::random_values(static_cast<std::size_t>(c.num_heads), 3);
  const std::vector<float> angles = test::random_values(static_cast<std::size_t>(num_rows * kNumPairs), 4);
  const std::vector<float> q_values = test::random_values((1 << 20) + 1024, 5);
  const float* device_sink = cuda.upload(sink);
  const float* device_angles = cuda.upload(angles);
  const View<const float, 2> angle_view(device_angles, {num_rows, kNumPairs});
  Bf16Bits* out = cuda.allocate<Bf16Bits>(num_rows * width);

  std::mt19937 random(7);
  std::vector<Input> inputs(static_cast<std::size_t>(num_inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Input& input = inputs[i];
    for (std::int64_t s = 0; s < c.num_sequences; ++s) {
      const auto list = static_cast<std::int64_t>(i) * c.num_sequences + s;
      input.pages.push_back(
          test::shuffled_pages(num_pages, static_cast<std::int32_t>(list * num_pages), random()));
      std::vector<PageId> window_pages(static_cast<std::size_t>(first_window_page), PageId::kNone);
      for (const PageId page : test::shuffled_pages(
               num_window_pages, static_cast<std::int32_t>(list * num_window_pages), random())) {
        window_pages.push_back(page);
      }
      input.window_pages.push_back(window_pages);
    }
    for (std::int64_t s = 0; s < c.num_sequences; ++s) {
      const auto at = static_cast<std::size_t>(s);
      input.slices.push_back(
          {s * c.num_tokens, c.num_tokens, start, input.pages[at], input.window_pages[at]});
    }
    input.tokens.resize(static_cast<std::size_t>(num_rows));
    // One of every `stride` entries.
    if (c.ratio == 4) {
      const auto stride = static_cast<std::uint32_t>(c.num_entries / c.num_selected);
      for (std::int64_t row = 0; row < num_rows; ++row) {
        for (std::uint32_t k = 0; k < c.num_selected; ++k) {
          input.selected.push_back(static_cast<std::int32_t>(k * stride + random() % stride));
        }
      }
    }
    std::vector<Bf16Bits> q(static_cast<std::size_t>(num_rows * width));
    const std::size_t shift = random() % 1024;
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = float_to_bf16(q_values[(k + shift) % (1 << 20)]);
    for (std::int64_t k = 0; k < width; ++k) {
      input.q.push_back(bf16_to_float(q[q.size() - static_cast<std::size_t>(width - k)]));
    }
    cuda.set_batch({input.tokens, input.slices});
    input.batch = cuda.context().batch;
    input.args = {
        .q = ConstActivations<3>(View<const Bf16Bits, 3>(cuda.upload(q), {num_rows, c.num_heads, kHeadDim})),
        .batch = {input.tokens, input.slices},
        .window = window.device(),
        .compressed = c.ratio == 0 ? LatentPool{} : compressed.device(),
        .ratio = c.ratio,
        .sink = {device_sink, sink.size()},
        .window_tokens = c.window_tokens,
        .scale = 1.0F / std::sqrt(static_cast<float>(kHeadDim)),
        .out = View<Bf16Bits, 3>(out, {num_rows, c.num_heads, kHeadDim})};
    if (c.ratio == 4) input.args.selected = {cuda.upload(input.selected), {num_rows, c.num_selected}};
    input.turn = {.x = input.args.out, .cosine = angle_view, .sine = angle_view, .inverse = true};
  }

  const auto launch = [&](int i) {
    const Input& input = inputs[static_cast<std::size_t>(i)];
    cuda.context().batch = input.batch;
    sm90::sparse_attention_rope(input.args, input.turn, cuda.context());
  };

  // The last row of the last input.
  launch(num_inputs - 1);
  cuda.synchronise();
  const std::vector<float> got = cuda.download_bf16(out + (num_rows - 1) * width, width);
  const Input& input = inputs.back();
  const std::vector<PageId> pages = RepeatedPages::on_host(input.pages.back());
  std::vector<PageId> window_pages = input.window_pages.back();
  for (PageId& page : window_pages) {
    if (page != PageId::kNone) page = RepeatedPages::on_host({page})[0];
  }
  const SequenceSlice slice{0, 1, end - 1, pages, window_pages};
  const TokenId token{};
  std::vector<float> want(static_cast<std::size_t>(width));
  SparseAttentionArgs args = input.args;
  args.q = ConstActivations<3>(input.q.data(), {1, c.num_heads, kHeadDim});
  args.batch = {{&token, 1}, {&slice, 1}};
  args.window = window.host();
  args.compressed = c.ratio == 0 ? LatentPool{} : compressed.host();
  if (c.ratio == 4) {
    args.selected = {input.selected.data() + (num_rows - 1) * c.num_selected, {1, c.num_selected}};
  }
  args.sink = sink;
  args.out = Activations<3>(want.data(), {1, c.num_heads, kHeadDim});
  sparse_attention_ref(args);
  const View<const float, 2> last_angles(angles.data() + (num_rows - 1) * kNumPairs, {1, kNumPairs});
  rope_ref({.x = args.out, .cosine = last_angles, .sine = last_angles, .inverse = true});
  const std::string error = test::difference(got, want, {.norm = 4e-3});
  if (!error.empty()) {
    fmt::print("{}: WRONG: {}\n", c.name, error);
    return;
  }

  bench::report("sparse_attention", c.name, bench::time_launches(cuda.context().stream, num_inputs, launch),
                bytes, flops, c.against);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto decode = [&](const std::string& what, std::int64_t batch, std::int64_t heads, int ratio,
                          std::int64_t num_selected, std::int64_t num_entries, const std::string& against) {
    all.push_back({fmt::format("decode {} batch {}", what, batch), batch, 2, heads, ratio, num_selected,
                   num_entries, 128, against});
  };
  for (const auto& [batch, against] :
       {std::pair{2, "15.1"}, {8, ""}, {16, ""}, {64, "48.9"}, {128, "91.5"}, {256, "174.4"}}) {
    decode("64 heads 128+512", batch, 64, 4, 512, 8'192, against);
  }
  for (const auto& [batch, against] : {std::pair{1, ""}, {64, "74.3"}, {128, "120.0"}, {256, "215.2"}}) {
    decode("64 heads 128+1024 pages of 2", batch, 64, 128, 0, 1'024, against);
  }
  for (const auto& [batch, against] : {std::pair{1, ""}, {64, "105.0"}, {128, "205.2"}, {256, "402.5"}}) {
    decode("128 heads 128+1024", batch, 128, 4, 1'024, 8'192, against);
  }
  decode("64 heads 128", 1, 64, 0, 0, 0, "");
  decode("64 heads 128+8192 pages of 2", 1, 64, 128, 0, 8'192, "");
  const auto prefill = [&](std::int64_t heads, std::int64_t num_selected, std::int64_t num_entries,
                           std::int64_t window_tokens, const std::string& against) {
    all.push_back({fmt::format("prefill 4096 queries {} heads {}+{} of {}", heads, window_tokens,
                               num_selected, num_entries),
                   1, 4096, heads, 4, num_selected, num_entries, window_tokens, against});
  };
  prefill(64, 512, 8'192, 0, "528");
  prefill(64, 512, 65'536, 0, "587");
  prefill(64, 512, 8'192, 128, "");
  prefill(128, 1024, 8'192, 0, "1755");
  prefill(128, 1024, 65'536, 0, "1905");
  prefill(128, 1024, 8'192, 128, "");
  return all;
}

}  // namespace
}  // namespace baleen::sm90

/// Optional argument: only cases whose names contain it.
int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  for (const baleen::sm90::Case& c : baleen::sm90::cases()) {
    if (c.name.find(wanted) != std::string::npos) baleen::sm90::run(c);
  }
}
