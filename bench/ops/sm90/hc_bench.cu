// Hyper-connection sites, norms, embedding and MTP entry at Flash's sizes: one token, decode batches, a prefill chunk.

#include <cstdio>
#include <functional>

#include "bench/support/cuda_bench.h"
#include "ops/embed/cuda/embed.h"
#include "ops/hc_head/cuda/hc_head.h"
#include "ops/hc_post/cuda/hc_post.h"
#include "ops/hc_pre/cuda/hc_pre.h"
#include "ops/mtp_combine/cuda/mtp_combine.h"
#include "ops/rms_norm/cuda/rms_norm.h"
#include "tests/support/hc_site_problem.h"

namespace baleen::bench {
namespace {

constexpr std::int64_t kWidth = 4096, kStreams = 4, kMixes = (2 + kStreams) * kStreams;
constexpr std::int64_t kHeads = 64, kHeadWidth = 512, kPairs = 32, kLatent = 1024;
constexpr std::int64_t kRows[] = {1, 16, 64, 4096};

/// Device arrays of random values: one pattern, repeated, so that large ones cost no time on the host.
class RandomArrays {
 public:
  explicit RandomArrays(test::TestCuda& cuda) : cuda_(cuda) {
    const std::vector<float> values = test::random_values(kPattern, 7);
    floats_ = cuda.upload(values);
    bf16_ = cuda.upload_bf16(values);
  }
  [[nodiscard]] float* floats(std::int64_t count) { return fill(floats_, count); }
  [[nodiscard]] Bf16Bits* bf16(std::int64_t count) { return fill(bf16_, count); }

 private:
  static constexpr std::int64_t kPattern = 1 << 20;

  template <class T>
  T* fill(const T* pattern, std::int64_t count) {
    T* array = cuda_.allocate<T>(count);
    for (std::int64_t done = 0; done < count; done += kPattern) {
      const auto bytes = static_cast<std::size_t>(std::min(kPattern, count - done)) * sizeof(T);
      check_cuda(
          cudaMemcpyAsync(array + done, pattern, bytes, cudaMemcpyDeviceToDevice, cuda_.context().stream),
          "filling an array");
    }
    return array;
  }

  test::TestCuda& cuda_;
  const float* floats_;
  const Bf16Bits* bf16_;
};

/// One set of arguments of everything that is timed, for a number of rows.
struct Inputs {
  Inputs(test::TestCuda& cuda, RandomArrays& random, std::int64_t rows)
      : streams(random.bf16(rows * kStreams * kWidth), {rows, kStreams, kWidth}),
        f(random.bf16(rows * kWidth), {rows, kWidth}),
        y(random.bf16(rows * kWidth), {rows, kWidth}),
        latent(random.bf16(rows * kLatent), {rows, kLatent}),
        post(random.floats(rows * kStreams), {rows, kStreams}),
        comb(random.floats(rows * kStreams * kStreams), {rows, kStreams, kStreams}),
        y_fp8{cuda.allocate<std::uint8_t>(rows * kWidth), cuda.allocate<float>(kWidth / 128 * (rows + 3)),
              (rows + 3) / 4 * 4} {
    const HcWeights weights{{random.floats(kMixes * kStreams * kWidth), {kMixes, kStreams * kWidth}},
                            {random.floats(kMixes), static_cast<std::size_t>(kMixes)},
                            {random.floats(3), 3}};
    pre = {
        .streams = View<const Bf16Bits, 3>(streams), .weights = weights, .u = y, .post = post, .comb = comb};
    norm = {
        .x = View<const Bf16Bits, 2>(y), .weight = {random.floats(kWidth), kWidth}, .y = y, .y_fp8 = y_fp8};
    leave = {.f = View<const Bf16Bits, 2>(f),
             .post = View<const float, 2>(post),
             .comb = View<const float, 3>(comb),
             .streams = streams};
    head = {.streams = pre.streams,
            .weights = {{weights.fn.data(), {kStreams, kStreams * kWidth}},
                        weights.base.first(kStreams),
                        weights.scale.first(1)},
            .y = y};
    latent_norm = {.x = View<const Bf16Bits, 2>(latent),
                   .weight = {norm.weight.data(), kLatent},
                   .y = latent,
                   .y_fp8 = y_fp8};
  }

  View<Bf16Bits, 3> streams;
  View<Bf16Bits, 2> f, y, latent;
  View<float, 2> post;
  View<float, 3> comb;
  Fp8Rows y_fp8;
  HcPreArgs pre;
  RmsNormArgs norm, latent_norm;
  HcPostArgs leave;
  HcHeadArgs head;
};

void bench_rows(test::TestCuda& cuda, std::int64_t rows) {
  RandomArrays random(cuda);
  const double t = static_cast<double>(rows), row_bytes = 2.0 * kWidth,
               weight_bytes = 4.0 * kMixes * kStreams * kWidth;
  const int num_inputs = inputs_beyond_l2(9 * row_bytes * t + weight_bytes);
  std::vector<Inputs> inputs;
  for (int i = 0; i < num_inputs; ++i) inputs.emplace_back(cuda, random, rows);
  CudaContext& context = cuda.context();
  const std::string shape = fmt::format("T={} d={}", rows, kWidth);
  const auto time = [&](const char* name, const std::string& of, double bytes, double flops,
                        const auto& launch) {
    report(name, of, time_launches(context.stream, num_inputs, launch), bytes, flops);
  };
  const auto at = [&](int i) -> Inputs& { return inputs[static_cast<std::size_t>(i)]; };
  const double stream_bytes = kStreams * row_bytes * t, y_bytes = 1.5 * row_bytes * t;
  const double flops = 2.0 * kMixes * kStreams * kWidth * t;

  time("hc_post_pre_norm", shape, 2 * stream_bytes + row_bytes * t + y_bytes + weight_bytes, flops,
       [&](int i) { sm90::hc_post_pre_norm(at(i).leave, at(i).pre, at(i).norm, context); });
  time("hc_pre_norm", shape, stream_bytes + y_bytes + weight_bytes, flops,
       [&](int i) { sm90::hc_pre_norm(at(i).pre, at(i).norm, context); });
  time("hc_post", shape, 2 * stream_bytes + row_bytes * t, 0,
       [&](int i) { sm90::hc_post(at(i).leave, context); });
  if (rows <= 64) {
    time("hc_head", shape, stream_bytes + row_bytes * t + weight_bytes / 6, flops / 6,
         [&](int i) { sm90::hc_head(at(i).head, context); });
  }
  time("rms_norm", fmt::format("T={} width={} fp8", rows, kLatent), 5.0 * kLatent * t, 0,
       [&](int i) { sm90::rms_norm(at(i).latent_norm, context); });
  time("mtp_combine", shape, 2 * stream_bytes + row_bytes * t, 0, [&](int i) {
    sm90::mtp_combine({.embedded = View<const Bf16Bits, 2>(at(i).f), .streams = at(i).streams}, context);
  });

  constexpr std::int64_t kVocabulary = 16384;
  const View<const Bf16Bits, 2> table(random.bf16(kVocabulary * kWidth), {kVocabulary, kWidth});
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < rows; ++i) tokens.push_back(static_cast<TokenId>(i * 7919 % kVocabulary));
  const std::vector<SequenceSlice> slices = {{.num_tokens = rows}};
  cuda.set_batch({.tokens = tokens, .slices = slices});
  time("embed", shape, stream_bytes + row_bytes * t, 0,
       [&](int i) { sm90::embed({.table = table, .out = at(i).streams}, context); });
}

void bench_queries(test::TestCuda& cuda, std::int64_t rows) {
  RandomArrays random(cuda);
  const std::int64_t heads = rows * kHeads;
  const double bytes = 4.0 * static_cast<double>(heads * kHeadWidth);
  const int num_inputs = inputs_beyond_l2(bytes / 2);
  const View<const float, 2> angles(random.floats(rows * kPairs), {rows, kPairs});
  std::vector<Bf16Bits*> q;
  for (int i = 0; i < num_inputs; ++i) q.push_back(random.bf16(heads * kHeadWidth));
  const Timing timing = time_launches(cuda.context().stream, num_inputs, [&](int i) {
    Bf16Bits* x = q[static_cast<std::size_t>(i)];
    const View<Bf16Bits, 2> per_head(x, {heads, kHeadWidth});
    sm90::rms_norm_rope(
        {.x = View<const Bf16Bits, 2>(per_head), .y = per_head},
        {.x = View<Bf16Bits, 3>(x, {rows, kHeads, kHeadWidth}), .cosine = angles, .sine = angles},
        cuda.context());
  });
  report("rms_norm_rope", fmt::format("T={} heads={}x{}", rows, kHeads, kHeadWidth), timing, bytes, 0);
}

int run() {
  if (!test::have_gpu()) {
    std::puts("no GPU here");
    return 0;
  }
  for (const std::int64_t rows : {3, 70}) {
    test::TestCuda cuda;
    test::HcSiteProblem problem(rows, kWidth);
    const std::string difference = problem.difference(problem.run(cuda, true, 0, rows), true);
    if (!difference.empty()) {
      fmt::print("hc_post_pre_norm is wrong for {} rows:\n{}", rows, difference);
      return 1;
    }
  }
  for (const std::int64_t rows : kRows) {
    test::TestCuda cuda;
    bench_rows(cuda, rows);
  }
  for (const std::int64_t rows : kRows) {
    test::TestCuda cuda;
    bench_queries(cuda, rows);
  }
  return 0;
}

}  // namespace
}  // namespace baleen::bench

int main() { return baleen::bench::run(); }
