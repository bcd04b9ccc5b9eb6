// Mixings and their gradients in float32, which are SIMD, against the plain loops in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ops/hc_head/hc_head_backward.h"
#include "ops/hc_post/hc_post_backward.h"
#include "ops/hc_pre/hc_pre_backward.h"
#include "tests/support/trained_operation.h"

namespace baleen {
namespace {

template <class T>
std::vector<T> normal_values(std::int64_t size, std::mt19937& random) {
  std::normal_distribution<double> normal(0, 1);
  std::vector<T> values(static_cast<std::size_t>(size));
  for (T& value : values) value = static_cast<T>(normal(random));
  return values;
}

/// Values of one mixing with its gradients, all in one array.
template <class T>
std::vector<T> mixing_with_gradients(std::int64_t rows, int streams, std::int64_t width, bool head_only) {
  const std::int64_t n = streams, mixes = head_only ? n : (2 + n) * n;
  std::mt19937 random(11);
  const std::vector<T> x = normal_values<T>(rows * n * width, random),
                       fn = normal_values<T>(mixes * n * width, random), scale = normal_values<T>(3, random),
                       base = normal_values<T>(mixes, random), du = normal_values<T>(rows * width, random),
                       f = normal_values<T>(rows * width, random), dpost = normal_values<T>(rows * n, random),
                       dcomb = normal_values<T>(rows * n * n, random),
                       dout = normal_values<T>(rows * n * width, random);
  std::vector<T> small_fn = fn;  // products of about 1
  for (T& value : small_fn) value /= std::sqrt(static_cast<T>(n * width));
  std::vector<T> all;
  const auto room = [&all](std::int64_t count) {
    const auto begin = static_cast<std::ptrdiff_t>(all.size());
    all.resize(all.size() + static_cast<std::size_t>(count));
    return begin;
  };
  const auto post = room(rows * n), comb = room(rows * n * n), u = room(rows * width),
             out = room(rows * n * width), products = room(rows * mixes), dx = room(rows * n * width),
             draw = room(rows * mixes), dscale = room(3), dbase = room(mixes), df = room(rows * width),
             dmix = room(rows * n), dmixes = room(rows * n * n);
  T* const at = all.data();
  const ActivationView<const T, 3> streams_before{x.data(), {rows, n, width}};
  const HcWeightsOf<T> weights{.fn = {small_fn.data(), {mixes, n * width}}, .base = base, .scale = scale};
  const HcGradients<T> gradients{.du = du.data(),
                                 .dpost = dpost.data(),
                                 .dcomb = dcomb.data(),
                                 .dx = at + dx,
                                 .draw = at + draw,
                                 .dscale = at + dscale,
                                 .dbase = at + dbase};
  if (head_only) {
    const HcHeadArgsOf<T> head{.streams = streams_before,
                               .weights = weights,
                               .precision = Precision::kExact,
                               .y = {at + u, {rows, width}},
                               .products = {at + products, {rows, mixes}}};
    test::run_trained<ops::HcHead, T>(head);
    hc_head_backward(head, gradients);
    return all;
  }
  const HcPreArgsOf<T> entry{.streams = streams_before,
                             .weights = weights,
                             .precision = Precision::kExact,
                             .u = {at + u, {rows, width}},
                             .post = {at + post, {rows, n}},
                             .comb = {at + comb, {rows, n, n}},
                             .products = {at + products, {rows, mixes}}};
  test::run_trained<ops::HcPre, T>(entry);
  hc_pre_backward(entry, gradients);
  const HcPostArgsOf<T> leave{.f = {f.data(), {rows, width}},
                              .post = entry.post,
                              .comb = entry.comb,
                              .precision = Precision::kExact,
                              .streams = {at + out, {rows, n, width}},
                              .before = streams_before};
  test::run_trained<ops::HcPost, T>(leave);
  hc_post_backward(leave, dout.data(), at + dx, at + df, at + dmix, at + dmixes);
  return all;
}

TEST(Mixings, OfFloatsAreThoseOfDoubles) {
  for (const bool head_only : {false, true}) {
    for (const int streams : {1, 2, 4, 8}) {
      for (const std::int64_t rows : {1, 7, 16, 33}) {
        const std::vector<float> found = mixing_with_gradients<float>(rows, streams, 83, head_only);
        const std::vector<double> expected = mixing_with_gradients<double>(rows, streams, 83, head_only);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(static_cast<double>(found[i]), expected[i], 2e-5 * std::max(1.0, std::abs(expected[i])))
              << "value " << i << " of " << rows << " rows, " << streams << " streams";
        }
      }
    }
  }
}

}  // namespace
}  // namespace baleen
