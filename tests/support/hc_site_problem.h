/// Random inputs of a hyper-connection site in host and device memory: the fused kernels on the device, held
/// against the sequence of references on the CPU.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "ops/hc_post/cuda/hc_post.h"
#include "ops/hc_pre/cuda/hc_pre.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cuda.h"

namespace baleen::test {

[[nodiscard]] inline std::vector<float> random_bf16(std::int64_t count, std::uint32_t seed,
                                                    float deviation = 1.0F) {
  std::vector<float> values = random_values(static_cast<std::size_t>(count), seed, deviation);
  for (float& value : values) value = round_bf16(value);
  return values;
}

/// What a site leaves behind, on the host.
struct HcSiteResults {
  std::vector<float> streams, post, comb, y, scales;
  std::vector<std::uint8_t> codes;
  std::vector<float> pre;  ///< where mixing lags
};

struct HcSiteProblem {
  static constexpr std::int64_t n = 4;
  static constexpr std::int64_t kMixes = (2 + n) * n;

  HcSiteProblem(std::int64_t num_rows, std::int64_t stream_width, std::uint32_t seed = 1)
      : rows(num_rows), width(stream_width) {
    fn = random_values(static_cast<std::size_t>(kMixes * n * width), seed,
                       1.0F / std::sqrt(static_cast<float>(n * width)));
    base = random_values(static_cast<std::size_t>(kMixes), seed + 1);
    norm_weight = random_bf16(width, seed + 2);
    streams = random_bf16(rows * n * width, seed + 3, 2.0F);
    f = random_bf16(rows * width, seed + 4, 2.0F);
    post = random_values(static_cast<std::size_t>(rows * n), seed + 5);
    comb = random_values(static_cast<std::size_t>(rows * n * n), seed + 6, 0.5F);
  }

  /// From now on the streams are summed up by other weights, and the site's own are kept.
  void lag() { incoming = random_values(static_cast<std::size_t>(rows * n), 7); }

  [[nodiscard]] HcWeights weights() { return {{fn.data(), {kMixes, n * width}}, base, scale}; }

  /// Rows [begin, end), alone in memory. `leaving`: hc_post first. `in_place`: the new post and comb
  /// overwrite the old.
  [[nodiscard]] HcSiteResults run(TestCuda& cuda, bool leaving, std::int64_t begin, std::int64_t end,
                                  bool in_place = false) {
    const std::int64_t count = end - begin;
    const auto part = [&](const std::vector<float>& values, std::int64_t per_row) {
      return std::span(values).subspan(static_cast<std::size_t>(begin * per_row),
                                       static_cast<std::size_t>(count * per_row));
    };
    Bf16Bits* device_streams = cuda.upload_bf16(part(streams, n * width));
    float* old_post = cuda.upload(part(post, n));
    float* old_comb = cuda.upload(part(comb, n * n));
    float* new_post = in_place ? old_post : cuda.allocate<float>(count * n);
    float* new_comb = in_place ? old_comb : cuda.allocate<float>(count * n * n);
    Bf16Bits* y = cuda.allocate<Bf16Bits>(count * width);
    const std::int64_t scale_stride = (count + 7) / 4 * 4;
    const Fp8Rows y_fp8{cuda.allocate<std::uint8_t>(count * width),
                        cuda.allocate<float>(width / kActivationGroup * scale_stride), scale_stride};
    const View<Bf16Bits, 3> streams_view(device_streams, {count, n, width});
    const View<Bf16Bits, 2> y_view(y, {count, width});
    HcPreArgs pre{.streams = View<const Bf16Bits, 3>(streams_view),
                  .weights = {.fn = {cuda.upload(fn), {kMixes, n * width}},
                              .base = {cuda.upload(base), base.size()},
                              .scale = {cuda.upload(scale), scale.size()}},
                  .u = y_view,
                  .post = {new_post, {count, n}},
                  .comb = {new_comb, {count, n, n}}};
    float* const mixing = incoming.empty() ? nullptr : cuda.upload(part(incoming, n));
    if (mixing != nullptr) {
      pre.incoming = View<const float, 2>(mixing, {count, n});
      pre.pre = {mixing, {count, n}};
    }
    const RmsNormArgs norm{.x = View<const Bf16Bits, 2>(y_view),
                           .weight = {cuda.upload(norm_weight), norm_weight.size()},
                           .y = y_view,
                           .y_fp8 = y_fp8};
    if (leaving) {
      BALEEN_ARCH::hc_post_pre_norm(
          {.f = View<const Bf16Bits, 2>(cuda.upload_bf16(part(f, width)), {count, width}),
           .post = View<const float, 2>(old_post, {count, n}),
           .comb = View<const float, 3>(old_comb, {count, n, n}),
           .streams = streams_view},
          pre, norm, cuda.context());
    } else {
      BALEEN_ARCH::hc_pre_norm(pre, norm, cuda.context());
    }
    cuda.synchronise();
    return {cuda.download_bf16(device_streams, count * n * width),
            cuda.download(new_post, count * n),
            cuda.download(new_comb, count * n * n),
            cuda.download_bf16(y, count * width),
            cuda.download(y_fp8.scales, width / kActivationGroup * scale_stride),
            cuda.download(y_fp8.codes, count * width),
            mixing == nullptr ? std::vector<float>() : cuda.download(mixing, count * n)};
  }

  /// Empty where every row of `got` agrees with the references, else what differs. What follows the streams
  /// is computed from the device's streams: where float32 sums round a stream's value to the other neighbour
  /// than exact ones do, products differ by more than they err.
  [[nodiscard]] std::string difference(const HcSiteResults& got, bool leaving) {
    std::vector<float> want_streams = streams;
    if (leaving) {
      hc_post_ref({.f = {f.data(), {rows, width}},
                   .post = {post.data(), {rows, n}},
                   .comb = {comb.data(), {rows, n, n}},
                   .streams = {want_streams.data(), {rows, n, width}}});
    }
    const Tolerance one_rounding{.absolute = 1e-5, .relative = 0x1p-7, .norm = 1e-4};
    std::string text =
        named("streams", test::difference(got.streams, want_streams, leaving ? one_rounding : Tolerance{}));
    std::vector<float> after = got.streams;
    std::vector<float> u(static_cast<std::size_t>(rows * width)), want_post(got.post.size()),
        want_comb(got.comb.size());
    const Activations<2> u_view(u.data(), {rows, width});
    HcPreArgs reference{.streams = {after.data(), {rows, n, width}},
                        .weights = weights(),
                        .u = u_view,
                        .post = {want_post.data(), {rows, n}},
                        .comb = {want_comb.data(), {rows, n, n}}};
    std::vector<float> want_pre(got.pre.size());
    if (!incoming.empty()) {
      reference.incoming = {incoming.data(), {rows, n}};
      reference.pre = {want_pre.data(), {rows, n}};
    }
    hc_pre_ref(reference);
    rms_norm_ref({.x = u_view, .weight = norm_weight, .y = u_view});
    // Float32 sums of up to 28,672 products, of which the largest partial sums are a few.
    text += named("post", test::difference(got.post, want_post, {.absolute = 3e-6}));
    text += named("comb", test::difference(got.comb, want_comb, {.absolute = 3e-6}));
    text += named("pre", test::difference(got.pre, want_pre, {.absolute = 3e-6}));
    text += named("y", test::difference(got.y, u, {.absolute = 1e-6, .relative = 0x1p-6, .norm = 5e-4}));
    const std::int64_t wrong = count_wrong_codes(got);
    if (wrong > 0) text += std::to_string(wrong) + " codes and scales that are not those of y\n";
    return text;
  }

  /// Codes and scales that are not, to the bit, those of the rows that were written.
  [[nodiscard]] std::int64_t count_wrong_codes(const HcSiteResults& got) const {
    const std::int64_t num_blocks = width / kActivationGroup;
    const std::int64_t scale_stride = static_cast<std::int64_t>(got.scales.size()) / num_blocks;
    const std::int64_t count = static_cast<std::int64_t>(got.y.size()) / width;
    std::vector<std::uint8_t> codes(kActivationGroup);
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t block = 0; block < num_blocks; ++block) {
        const auto first = static_cast<std::size_t>(row * width + block * kActivationGroup);
        const float scale_want =
            e8m0_to_float(quantise_fp8_block(std::span(got.y).subspan(first, kActivationGroup), codes));
        wrong += scale_want != got.scales[static_cast<std::size_t>(block * scale_stride + row)];
        for (std::size_t i = 0; i < codes.size(); ++i) wrong += codes[i] != got.codes[first + i];
      }
    }
    return wrong;
  }

  [[nodiscard]] static std::string named(const char* name, const std::string& message) {
    return message.empty() ? "" : std::string(name) + ": " + message + "\n";
  }

  std::int64_t rows, width;
  std::vector<float> fn, base, norm_weight, streams, f, post, comb;
  std::vector<float> scale = {0.7F, 1.3F, -0.9F};
  std::vector<float> incoming;  ///< empty: mixing does not lag
};

/// Row `row` of `many` is row 0 of `one`, to the bit.
inline std::string row_difference(const HcSiteResults& many, const HcSiteResults& one, std::int64_t row) {
  const auto differ = [row](const std::vector<float>& all, const std::vector<float>& alone) {
    return bit_difference(std::span(all).subspan(static_cast<std::size_t>(row) * alone.size(), alone.size()),
                          alone);
  };
  for (const auto& [name, message] : {std::pair{"streams: ", differ(many.streams, one.streams)},
                                      {"post: ", differ(many.post, one.post)},
                                      {"comb: ", differ(many.comb, one.comb)},
                                      {"y: ", differ(many.y, one.y)}}) {
    if (!message.empty()) return name + message;
  }
  return "";
}

}  // namespace baleen::test
