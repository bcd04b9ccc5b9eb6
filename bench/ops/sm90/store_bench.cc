// The operations between the large products, at one token, 64 sequences of one token, and a chunk of 4,096: shapes of
// DeepSeek-V4-Flash. Each is compared with its reference before it is timed.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "bench/support/cuda_bench.h"
#include "ops/compressor/cuda/compressor.h"
#include "ops/gather_rows/cuda/gather_rows.h"
#include "ops/kv_store/cuda/kv_store.h"
#include "ops/rope/cuda/rope_angles.h"
#include "ops/rope/rope_frequencies.h"
#include "ops/route/cuda/route.h"
#include "ops/sample/cuda/sample.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::sm90 {
namespace {

using bench::inputs_beyond_l2;
using bench::report;
using bench::time_launches;
using test::random_values;

constexpr int kRope = 64;
constexpr std::int64_t kPages = 80;  // of 256 positions

/// T rows: of one sequence from position 0, or of as many sequences with one token at `position` each.
struct Rows {
  Rows(std::int64_t count, std::int64_t position) : tokens(static_cast<std::size_t>(count)) {
    const bool prefill = count > 64;
    pages.resize(kPages);
    for (std::int32_t i = 0; i < kPages; ++i) pages[static_cast<std::size_t>(i)] = PageId{i};
    if (prefill) {
      slices.push_back({0, count, 0, pages, pages, 0});
      return;
    }
    for (std::int64_t row = 0; row < count; ++row) {
      // Every sequence has a page of its own, wherever it stands in it.
      tables.emplace_back(static_cast<std::size_t>(position / 256 + 1),
                          PageId{static_cast<std::int32_t>(row)});
    }
    for (std::int64_t row = 0; row < count; ++row) {
      const std::vector<PageId>& table = tables[static_cast<std::size_t>(row)];
      slices.push_back({row, 1, position, table, table, static_cast<std::int32_t>(row)});
    }
  }
  Rows(const Rows&) = delete;
  [[nodiscard]] RaggedBatch batch() const { return {tokens, slices}; }

  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  std::vector<std::vector<PageId>> tables;
  std::vector<SequenceSlice> slices;
};

std::string shape_name(std::int64_t num_rows, const std::string& more) {
  return fmt::format("T={}{}{}", num_rows, more.empty() ? "" : " ", more);
}

/// Bytes of two pools: few may differ (a rounding that goes the other way), and none may be unwritten.
void verify(const std::string& what, std::span<const std::byte> got, std::span<const std::byte> want) {
  std::size_t different = 0, written = 1;
  for (std::size_t i = 0; i < want.size(); ++i) {
    different += got[i] != want[i] ? 1 : 0;
    written += want[i] != std::byte{0xFF} ? 1 : 0;
  }
  if (different > written / 100 + 1)
    fail("{}: {} of {} bytes differ from the reference", what, different, written);
}

void bench_rope_angles(std::int64_t num_rows) {
  test::TestCuda cuda(1 << 20);
  const Rows rows(num_rows, 777);
  const RaggedBatch batch = rows.batch();
  cuda.set_batch(batch);
  const std::vector<float> frequencies = rope_frequencies(10000.0F, kRope, nullptr);
  auto* cosine = cuda.allocate<float>(num_rows * kRope / 2);
  auto* sine = cuda.allocate<float>(num_rows * kRope / 2);
  const RopeAnglesArgs args{.frequencies = {cuda.upload(frequencies), frequencies.size()},
                            .batch = batch,
                            .cosine = {cosine, {num_rows, kRope / 2}},
                            .sine = {sine, {num_rows, kRope / 2}}};
  const auto timing =
      time_launches(cuda.context().stream, 16, [&](int) { sm90::rope_angles(args, cuda.context()); });
  report("rope_angles", shape_name(num_rows, ""), timing, static_cast<double>(8 * num_rows * kRope / 2), 0);
}

void bench_kv_store(std::int64_t num_rows) {
  constexpr std::int64_t kWidth = 512;
  const LatentFormat format{kWidth - kRope, kRope, Precision::kReleased};
  test::TestCuda cuda(1 << 20);
  const Rows rows(num_rows, 777);
  const RaggedBatch batch = rows.batch();
  cuda.set_batch(batch);
  const double bytes = static_cast<double>(num_rows * (2 * kWidth + 4 * kRope + format.row_bytes()));
  const int num_inputs = inputs_beyond_l2(bytes);
  const std::vector<float> weight = random_values(kWidth, 2),
                           cosine(static_cast<std::size_t>(num_rows * kRope / 2), 0.8F),
                           sine(cosine.size(), 0.6F);
  std::vector<float> kv = random_values(static_cast<std::size_t>(num_rows * kWidth), 1);
  for (float& value : kv) value = round_bf16(value);
  std::vector<std::byte> want(static_cast<std::size_t>(kPages * format.page_stride_bytes(256)),
                              std::byte{0xFF});
  KvStoreArgs host{.kv = {kv.data(), {num_rows, kWidth}},
                   .weight = weight,
                   .cosine = {cosine.data(), {num_rows, kRope / 2}},
                   .sine = {sine.data(), {num_rows, kRope / 2}},
                   .batch = batch,
                   .window = {want.data(), format.page_stride_bytes(256), 256, format}};
  kv_store_ref(host);
  std::vector<KvStoreArgs> inputs;
  const float* device_weight = cuda.upload(weight);
  for (int i = 0; i < num_inputs; ++i) {
    KvStoreArgs args = host;
    args.kv = View<const Bf16Bits, 2>(cuda.upload_bf16(kv), {num_rows, kWidth});
    args.weight = {device_weight, weight.size()};
    args.cosine = {cuda.upload(cosine), {num_rows, kRope / 2}};
    args.sine = {cuda.upload(sine), {num_rows, kRope / 2}};
    args.window.base = cuda.allocate<std::byte>(static_cast<std::int64_t>(want.size()));
    inputs.push_back(args);
  }
  const auto timing = time_launches(cuda.context().stream, num_inputs, [&](int i) {
    sm90::kv_store(inputs[static_cast<std::size_t>(i)], cuda.context());
  });
  verify("kv_store", cuda.download(inputs[0].window.base, static_cast<std::int64_t>(want.size())), want);
  report("kv_store", shape_name(num_rows, ""), timing, bytes, 0);
}

void bench_compressor(std::int64_t num_rows, int ratio, std::int64_t head_dim, bool indexer, bool completes) {
  test::TestCuda cuda(1 << 20);
  const std::int64_t position = completes ? 1023 : 1022;
  const Rows rows(num_rows, position);
  const RaggedBatch batch = rows.batch();
  cuda.set_batch(batch);
  const std::int64_t width = (ratio == 4 ? 2 : 1) * head_dim, ring_rows = ratio == 4 ? 8 : 128;
  const int rows_per_page = 256 / ratio;
  const LatentFormat format{static_cast<int>(head_dim) - kRope, kRope, Precision::kReleased};
  const std::int64_t page_stride =
      indexer ? IndexKeyFormat{}.page_stride_bytes(rows_per_page) : format.page_stride_bytes(rows_per_page);
  const std::vector<float> frequencies = rope_frequencies(160000.0F, kRope, nullptr);
  const std::vector<float> ape = random_values(static_cast<std::size_t>(ratio * width), 1),
                           weight(static_cast<std::size_t>(head_dim), 1.0F);
  const std::vector<float> kv = random_values(static_cast<std::size_t>(num_rows * width), 2),
                           gate = random_values(kv.size(), 3, 4.0F);
  std::vector<float> state = random_values(static_cast<std::size_t>(64 * 2 * ring_rows * width), 4);
  std::vector<float> overlap(static_cast<std::size_t>(ratio == 4 ? kPages * 8 * head_dim : 0));
  std::vector<std::byte> want(static_cast<std::size_t>(kPages * page_stride), std::byte{0xFF});
  const auto args_of = [&](const float* kv_at, float* gate_at, const float* ape_at, const float* weight_at,
                           const float* frequencies_at, float* state_at, float* overlap_at,
                           std::byte* pages) {
    return CompressorArgs{
        .kv = {kv_at, {num_rows, width}},
        .gate = {gate_at, {num_rows, width}},
        .ape = {ape_at, {ratio, width}},
        .norm_weight = {weight_at, weight.size()},
        .frequencies = {frequencies_at, frequencies.size()},
        .ratio = ratio,
        .batch = batch,
        .state = {state_at, 2 * ring_rows * width, ring_rows, width},
        .overlap = {overlap.empty() ? nullptr : overlap_at, 8 * head_dim, head_dim},
        .latent = indexer ? LatentPool{} : LatentPool{pages, page_stride, rows_per_page, format},
        .index_key = indexer ? IndexKeyPool{pages, page_stride, rows_per_page, {}} : IndexKeyPool{}};
  };
  // A step reads what it writes to the ring only once: the reference runs on copies of what the device begins with.
  std::vector<float> ref_gate = gate, ref_state = state, ref_overlap = overlap;
  const std::int64_t num_entries = num_rows > 64 ? num_rows / ratio : (completes ? num_rows : 0);
  const double rows_read = num_rows > 64
                               ? static_cast<double>(num_rows * width)
                               : static_cast<double>(num_entries * (ratio == 4 ? 8 : ratio) * head_dim);
  const double kept = static_cast<double>(std::min(num_rows, num_rows > 64 ? ring_rows : num_rows) * width);
  const double bytes =
      8 * rows_read + 16 * kept + static_cast<double>(num_entries * page_stride / rows_per_page);
  const int num_inputs = inputs_beyond_l2(bytes);
  const float* ape_at = cuda.upload(ape);
  const float* weight_at = cuda.upload(weight);
  const float* frequencies_at = cuda.upload(frequencies);
  std::vector<CompressorArgs> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    // Rings of decoding are what an entry of ratio 128 reads: each input its own, as far as 512 MB go.
    const bool own_state = i == 0 || (num_rows <= 64 && i < 8);
    float* state_at =
        own_state ? cuda.upload(state) : inputs[static_cast<std::size_t>(i % 8) % inputs.size()].state.base;
    inputs.push_back(args_of(cuda.upload(kv), cuda.upload(gate), ape_at, weight_at, frequencies_at, state_at,
                             cuda.upload(overlap),
                             cuda.allocate<std::byte>(static_cast<std::int64_t>(want.size()))));
  }
  compressor_ref(args_of(kv.data(), ref_gate.data(), ape.data(), weight.data(), frequencies.data(),
                         ref_state.data(), ref_overlap.data(), want.data()));
  sm90::compressor(inputs[0], cuda.context());
  std::byte* pages = indexer ? inputs[0].index_key.base : inputs[0].latent.base;
  verify("compressor", cuda.download(pages, static_cast<std::int64_t>(want.size())), want);
  const auto timing = time_launches(cuda.context().stream, num_inputs, [&](int i) {
    sm90::compressor(inputs[static_cast<std::size_t>(i)], cuda.context());
  });
  report(fmt::format("compressor 1:{} {}", ratio, indexer ? "keys" : "latent"),
         shape_name(num_rows, num_rows > 64 ? ""
                              : completes   ? "completing"
                                            : "open"),
         timing, bytes, 0);
}

void bench_route(std::int64_t num_rows) {
  constexpr std::int64_t kExperts = 256, kSelected = 6;
  test::TestCuda cuda(1 << 20);
  const Rows rows(num_rows, 777);
  cuda.set_batch(rows.batch());
  const std::vector<float> logits = random_values(static_cast<std::size_t>(num_rows * kExperts), 1),
                           bias = random_values(kExperts, 2, 0.1F);
  std::vector<std::int32_t> want(static_cast<std::size_t>(num_rows * kSelected));
  std::vector<float> weights(want.size());
  RouteArgs args{.logits = {logits.data(), {num_rows, kExperts}},
                 .scale = 1.5F,
                 .bias = bias,
                 .ids = {want.data(), {num_rows, kSelected}},
                 .weights = {weights.data(), {num_rows, kSelected}}};
  route_ref(args);
  const double bytes = static_cast<double>(num_rows * (4 * kExperts + 8 * kSelected));
  const int num_inputs = inputs_beyond_l2(bytes);
  std::vector<RouteArgs> inputs;
  const std::vector<std::int64_t> load(kExperts);
  auto* load_at = cuda.upload(load);
  for (int i = 0; i < num_inputs; ++i) {
    RouteArgs there = args;
    there.logits = {cuda.upload(logits), {num_rows, kExperts}};
    there.bias = {cuda.upload(bias), bias.size()};
    there.ids = {cuda.allocate<std::int32_t>(num_rows * kSelected), {num_rows, kSelected}};
    there.weights = {cuda.allocate<float>(num_rows * kSelected), {num_rows, kSelected}};
    there.load = {load_at, load.size()};
    inputs.push_back(there);
  }
  const auto timing = time_launches(cuda.context().stream, num_inputs, [&](int i) {
    sm90::route(inputs[static_cast<std::size_t>(i)], cuda.context());
  });
  if (cuda.download(inputs[0].ids.data(), num_rows * kSelected) != want) fail("route: ids differ");
  report("route", shape_name(num_rows, "E=256 k=6"), timing, bytes, 0);
}

void bench_gather_rows(std::int64_t num_rows) {
  constexpr std::int64_t kWidth = 4 * 4096;  // streams of one token
  test::TestCuda cuda(1 << 20);
  std::vector<RowPair> pairs;
  for (std::int32_t i = 0; i < num_rows; ++i)
    pairs.push_back({i, static_cast<std::int32_t>(num_rows) - 1 - i});
  const std::vector<float> values = random_values(static_cast<std::size_t>(num_rows * kWidth), 1);
  const double bytes = static_cast<double>(num_rows * kWidth * 4);
  const int num_inputs = inputs_beyond_l2(bytes);
  std::vector<GatherRowsArgs> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    inputs.push_back(
        {.from = View<const Bf16Bits, 2>(cuda.upload_bf16(values), {num_rows, kWidth}),
         .pairs = pairs,
         .to = View<Bf16Bits, 2>(cuda.allocate<Bf16Bits>(num_rows * kWidth), {num_rows, kWidth})});
  }
  const auto timing = time_launches(cuda.context().stream, num_inputs, [&](int i) {
    sm90::gather_rows(inputs[static_cast<std::size_t>(i)], cuda.context());
  });
  report("gather_rows", shape_name(num_rows, "of 32 KB"), timing, bytes, 0);
}

void bench_sample(std::int64_t num_rows, const std::string& name, const SampleRow& how) {
  constexpr std::int64_t kVocab = 129280;
  test::TestCuda cuda(1 << 20);
  const std::vector<float> logits = random_values(static_cast<std::size_t>(num_rows * kVocab), 1, 3.0F);
  const std::vector<SampleRow> rows(static_cast<std::size_t>(num_rows), how);
  const double bytes = static_cast<double>(num_rows * kVocab * 4);
  const int num_inputs = std::min(8, inputs_beyond_l2(bytes));
  std::vector<SampleArgs> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    inputs.push_back({.logits = {cuda.upload(logits), {num_rows, kVocab}},
                      .rows = rows,
                      .ids = {cuda.allocate<TokenId>(num_rows), rows.size()}});
  }
  const auto timing = time_launches(cuda.context().stream, num_inputs, [&](int i) {
    sm90::sample(inputs[static_cast<std::size_t>(i)], cuda.context());
  });
  std::vector<TokenId> want(static_cast<std::size_t>(std::min<std::int64_t>(num_rows, 8)));
  sample_ref({.logits = {logits.data(), {static_cast<std::int64_t>(want.size()), kVocab}},
              .rows = std::span(rows).first(want.size()),
              .ids = want});
  if (cuda.download(inputs[0].ids.data(), static_cast<std::int64_t>(want.size())) != want)
    fail("sample {}: ids differ", name);
  report("sample " + name, fmt::format("R={} V={}", num_rows, kVocab), timing, bytes, 0);
}

}  // namespace
}  // namespace baleen::sm90

/// With an argument, only those benchmarks whose name contains it.
int main(int argc, char** argv) {
  using namespace baleen;
  using namespace baleen::sm90;
  const std::string wanted = argc > 1 ? argv[1] : "";
  const auto run = [&](const std::string& name, std::int64_t num_rows, auto&& benchmark) {
    if (fmt::format("{} T={}", name, num_rows).find(wanted) != std::string::npos) benchmark();
  };
  for (const std::int64_t num_rows : {1, 64, 4096}) {
    run("rope_angles", num_rows, [&] { bench_rope_angles(num_rows); });
    run("kv_store", num_rows, [&] { bench_kv_store(num_rows); });
    for (const bool completes : {false, true}) {
      if (num_rows > 64 && !completes) continue;
      const std::string kind = completes ? "completing" : "open";
      run("compressor-4 " + kind, num_rows, [&] { bench_compressor(num_rows, 4, 512, false, completes); });
      run("compressor-keys " + kind, num_rows, [&] { bench_compressor(num_rows, 4, 128, true, completes); });
      run("compressor-128 " + kind, num_rows,
          [&] { bench_compressor(num_rows, 128, 512, false, completes); });
    }
    run("route", num_rows, [&] { bench_route(num_rows); });
    if (num_rows > 64) continue;
    run("gather_rows", num_rows, [&] { bench_gather_rows(num_rows); });
    const auto sample = [&](const std::string& name, const SampleRow& how) {
      run("sample " + name, num_rows, [&] { bench_sample(num_rows, name, how); });
    };
    sample("greedy", {});
    sample("plain", {.temperature = 1.0, .uniform = 0.37});
    sample("top-p 0.95", {.temperature = 0.6, .top_p = 0.95, .uniform = 0.37});
    sample("top-k 50 top-p 0.9", {.temperature = 0.7, .top_k = 50, .top_p = 0.9, .uniform = 0.37});
  }
}
