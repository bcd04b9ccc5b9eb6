// The backward of every trained operation against central differences: 1e-6 in float64, 1e-3 in float32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "ops/compressor/compressor_backward.h"
#include "ops/dense_attention/dense_attention.h"
#include "ops/engram/stream_gates.h"
#include "ops/experts/swiglu_backward.h"
#include "ops/hc_head/hc_head_backward.h"
#include "ops/hc_post/hc_post_backward.h"
#include "ops/hc_pre/hc_pre_backward.h"
#include "ops/indexer_loss/index_scores.h"
#include "ops/indexer_loss/indexer_loss.h"
#include "ops/linear/linear_backward.h"
#include "ops/rms_norm/rms_norm_backward.h"
#include "ops/rope/rope.h"
#include "ops/route/route_backward.h"
#include "ops/route/sequence_balance.h"
#include "tests/support/trained_operation.h"

namespace baleen {
namespace {

using test::run_trained;

template <class T>
using Array = std::vector<T>;

/// Several named inputs of an operation and the gradient of Σ seed_i y_i by each.
template <class T>
struct Problem {
  std::vector<Array<T>> inputs;
  std::function<Array<T>(const std::vector<Array<T>>&)> forward;
  /// dy and zeroed arrays of the inputs' shapes
  std::function<void(const std::vector<Array<T>>&, const Array<T>&, std::vector<Array<T>>&)> backward;
};

template <class T>
Array<T> random_array(std::int64_t size, std::mt19937& random, double spread = 1) {
  std::normal_distribution<double> normal(0, spread);
  Array<T> values(static_cast<std::size_t>(size));
  for (T& value : values) value = static_cast<T>(normal(random));
  return values;
}

/// The analytic gradient in T against central differences of the float64 forward: both from one maker of
/// problems.
template <class T, class Make>
void check(Make&& make, unsigned seed) {
  std::mt19937 one(seed);
  std::mt19937 same(seed);
  Problem<T> problem = make(T{}, one);
  Problem<double> exact = make(double{}, same);
  std::mt19937 random(seed + 1);
  const Array<double> weights =
      random_array<double>(static_cast<std::int64_t>(exact.forward(exact.inputs).size()), random);
  const Array<T> dy(weights.begin(), weights.end());
  std::vector<Array<T>> gradients;
  for (const Array<T>& input : problem.inputs) gradients.emplace_back(input.size());
  problem.forward(problem.inputs);
  problem.backward(problem.inputs, dy, gradients);
  const auto loss = [&](const std::vector<Array<double>>& inputs) {
    const Array<double> y = exact.forward(inputs);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  const double tolerance = sizeof(T) == sizeof(double) ? 1e-6 : 1e-3;
  for (std::size_t input = 0; input < gradients.size(); ++input) {
    double largest = 0;
    std::vector<double> differences;
    for (std::size_t i = 0; i < gradients[input].size(); ++i) {
      constexpr double kStep = 1e-5;
      const double before = exact.inputs[input][i];
      exact.inputs[input][i] = before + kStep;
      const double above = loss(exact.inputs);
      exact.inputs[input][i] = before - kStep;
      const double below = loss(exact.inputs);
      exact.inputs[input][i] = before;
      differences.push_back((above - below) / (2 * kStep));
      largest = std::max(largest, std::abs(differences.back()));
    }
    for (std::size_t i = 0; i < differences.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(gradients[input][i]), differences[i],
                  tolerance * std::max(1.0, largest))
          << "input " << input << ", element " << i << ", seed " << seed;
    }
  }
}

template <class Make>
void check_both(Make&& make) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    check<double>(make, seed);
    check<float>(make, seed);
  }
}

int between(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

TEST(Gradients, Linear) {
  check_both([]<class T>(T, std::mt19937& random) {
    const LinearShape s{
        .rows = between(random, 1, 7), .in = between(random, 1, 9), .out = between(random, 1, 5)};
    return Problem<T>{{random_array<T>(s.rows * s.in, random), random_array<T>(s.out * s.in, random)},
                      [s](const auto& in) {
                        ThreadPool pool(2);
                        Array<T> y(static_cast<std::size_t>(s.rows * s.out));
                        dense_linear(s, in[0].data(), in[1].data(), y.data(), pool);
                        return y;
                      },
                      [s](const auto& in, const auto& dy, auto& d) {
                        ThreadPool pool(2);
                        linear_backward(s, in[0].data(), in[1].data(), dy.data(), d[0].data(), d[1].data(),
                                        pool);
                      }};
  });
}

TEST(Gradients, RmsNorm) {
  check_both([]<class T>(T, std::mt19937& random) {
    const std::int64_t rows = between(random, 1, 4);
    const std::int64_t width = between(random, 2, 9);
    const auto args = [=](const std::vector<Array<T>>& in) {
      return RmsNormArgsOf<T>{
          .x = {in[0].data(), {rows, width}}, .weight = in[1], .precision = Precision::kExact};
    };
    return Problem<T>{{random_array<T>(rows * width, random), random_array<T>(width, random)},
                      [=](const auto& in) {
                        Array<T> y(in[0].size());
                        RmsNormArgsOf<T> norm = args(in);
                        norm.y = {y.data(), {rows, width}};
                        run_trained<ops::RmsNorm, T>(norm);
                        return y;
                      },
                      [=](const auto& in, const auto& dy, auto& d) {
                        rms_norm_backward(args(in), dy.data(), d[0].data(), d[1].data());
                      }};
  });
}

TEST(Gradients, RopeAndItsInverse) {
  for (const bool inverse : {false, true}) {
    check_both([inverse]<class T>(T, std::mt19937& random) {
      const Array<T> angles = random_array<T>(2 * 2, random);
      Array<T> cosine;
      Array<T> sine;
      for (const T angle : angles) {
        cosine.push_back(std::cos(angle));
        sine.push_back(std::sin(angle));
      }
      const auto rotate = [=](bool by_opposite, Array<T>& x) {
        run_trained<ops::Rope, T>({.x = {x.data(), {2, 3, 6}},
                                   .cosine = {cosine.data(), {2, 2}},
                                   .sine = {sine.data(), {2, 2}},
                                   .inverse = by_opposite,
                                   .precision = Precision::kExact});
      };
      return Problem<T>{{random_array<T>(2 * 3 * 6, random)},
                        [=](const auto& in) {
                          Array<T> y = in[0];
                          rotate(inverse, y);
                          return y;
                        },
                        [=](const auto&, const auto& dy, auto& d) {
                          d[0] = dy;
                          rotate(!inverse, d[0]);
                        }};
    });
  }
}

/// A mixing of two rows of width 3 with inputs x, fn, scale and base. Outputs side by side: u, and of a
/// block's mixing post and comb.
template <class T>
struct MixingProblem {
  std::int64_t n = 4;
  bool head_only = false;

  static constexpr std::int64_t kRows = 2, kWidth = 3;

  [[nodiscard]] std::int64_t mixes() const { return head_only ? n : (2 + n) * n; }
  [[nodiscard]] HcWeightsOf<T> weights(const std::vector<Array<T>>& in) const {
    return {.fn = {in[1].data(), {mixes(), n * kWidth}}, .base = in[3], .scale = in[2]};
  }
  [[nodiscard]] HcPreArgsOf<T> entry(const std::vector<Array<T>>& in, Array<T>& y, Array<T>& products) const {
    return {.streams = {in[0].data(), {kRows, n, kWidth}},
            .weights = weights(in),
            .precision = Precision::kExact,
            .u = {y.data(), {kRows, kWidth}},
            .post = {y.data() + kRows * kWidth, {kRows, n}},
            .comb = {y.data() + kRows * (kWidth + n), {kRows, n, n}},
            .products = {products.data(), {kRows, mixes()}}};
  }
  [[nodiscard]] HcHeadArgsOf<T> head(const std::vector<Array<T>>& in, Array<T>& y, Array<T>& products) const {
    return {.streams = {in[0].data(), {kRows, n, kWidth}},
            .weights = weights(in),
            .precision = Precision::kExact,
            .y = {y.data(), {kRows, kWidth}},
            .products = {products.data(), {kRows, mixes()}}};
  }
  void forward(const std::vector<Array<T>>& in, Array<T>& y, Array<T>& products) const {
    y.assign(static_cast<std::size_t>(kRows * (kWidth + n + n * n)), T{0});
    products.resize(static_cast<std::size_t>(kRows * mixes()));
    if (head_only) return run_trained<ops::HcHead, T>(head(in, y, products));
    run_trained<ops::HcPre, T>(entry(in, y, products));
  }
  void backward(const std::vector<Array<T>>& in, const Array<T>& dy, std::vector<Array<T>>& d) const {
    Array<T> y, products;
    forward(in, y, products);
    Array<T> draw(products.size());
    const HcGradients<T> gradients{.du = dy.data(),
                                   .dpost = dy.data() + kRows * kWidth,
                                   .dcomb = dy.data() + kRows * (kWidth + n),
                                   .dx = d[0].data(),
                                   .draw = draw.data(),
                                   .dscale = d[2].data(),
                                   .dbase = d[3].data()};
    head_only ? hc_head_backward(head(in, y, products), gradients)
              : hc_pre_backward(entry(in, y, products), gradients);
    linear_backward<T>({.rows = kRows, .in = n * kWidth, .out = mixes()}, in[0].data(), in[1].data(),
                       draw.data(), d[0].data(), d[1].data());
  }
};

TEST(Gradients, HcPreThroughSinkhornAndHcHead) {
  for (const bool head_only : {false, true}) {
    check_both([head_only]<class T>(T, std::mt19937& random) {
      const MixingProblem<T> p{between(random, 2, 4), head_only};
      return Problem<T>{{random_array<T>(p.kRows * p.n * p.kWidth, random),
                         random_array<T>(p.mixes() * p.n * p.kWidth, random),
                         random_array<T>(head_only ? 1 : 3, random), random_array<T>(p.mixes(), random)},
                        [p](const auto& in) {
                          Array<T> y, products;
                          p.forward(in, y, products);
                          return y;
                        },
                        [p](const auto& in, const auto& dy, auto& d) { p.backward(in, dy, d); }};
    });
  }
}

/// Streams summed up with what the half-block before left, and with nothing else at the end.
TEST(Gradients, MixingThatLags) {
  check_both([]<class T>(T, std::mt19937& random) {
    const MixingProblem<T> p{between(random, 2, 4), false};
    const std::int64_t rows = p.kRows, n = p.n, own_pre = rows * (p.kWidth + n + n * n);
    const auto args = [=](const std::vector<Array<T>>& in, Array<T>& y, Array<T>& products) {
      y.assign(static_cast<std::size_t>(own_pre + rows * n), T{0});
      products.resize(static_cast<std::size_t>(rows * p.mixes()));
      HcPreArgsOf<T> entry = p.entry(in, y, products);
      entry.incoming = {in[4].data(), {rows, n}};
      entry.pre = {y.data() + own_pre, {rows, n}};
      return entry;
    };
    return Problem<T>{
        {random_array<T>(rows * n * p.kWidth, random), random_array<T>(p.mixes() * n * p.kWidth, random),
         random_array<T>(3, random), random_array<T>(p.mixes(), random), random_array<T>(rows * n, random)},
        [=](const auto& in) {
          Array<T> y, products;
          run_trained<ops::HcPre, T>(args(in, y, products));
          return y;
        },
        [=](const auto& in, const auto& dy, auto& d) {
          Array<T> y, products;
          const HcPreArgsOf<T> entry = args(in, y, products);
          run_trained<ops::HcPre, T>(entry);
          Array<T> draw(products.size());
          hc_pre_backward<T>(entry, {.du = dy.data(),
                                     .dpost = dy.data() + rows * p.kWidth,
                                     .dcomb = dy.data() + rows * (p.kWidth + n),
                                     .dpre = dy.data() + own_pre,
                                     .dx = d[0].data(),
                                     .dincoming = d[4].data(),
                                     .draw = draw.data(),
                                     .dscale = d[2].data(),
                                     .dbase = d[3].data()});
          linear_backward<T>({.rows = rows, .in = n * p.kWidth, .out = p.mixes()}, in[0].data(), in[1].data(),
                             draw.data(), d[0].data(), d[1].data());
        }};
  });
}

TEST(Gradients, HcHeadByGivenWeights) {
  check_both([]<class T>(T, std::mt19937& random) {
    const std::int64_t rows = 3, n = between(random, 2, 4), width = 5;
    const auto args = [=](const std::vector<Array<T>>& in, T* y) {
      return HcHeadArgsOf<T>{.streams = {in[0].data(), {rows, n, width}},
                             .precision = Precision::kExact,
                             .y = {y, {rows, width}},
                             .given = {in[1].data(), {rows, n}}};
    };
    return Problem<T>{{random_array<T>(rows * n * width, random), random_array<T>(rows * n, random)},
                      [=](const auto& in) {
                        Array<T> y(static_cast<std::size_t>(rows * width));
                        run_trained<ops::HcHead, T>(args(in, y.data()));
                        return y;
                      },
                      [=](const auto& in, const auto& dy, auto& d) {
                        hc_head_backward<T>(args(in, nullptr),
                                            {.du = dy.data(), .dx = d[0].data(), .dincoming = d[1].data()});
                      }};
  });
}

/// With a row of an image, which keeps its streams.
TEST(Gradients, StreamGatesOfNgrams) {
  check_both([]<class T>(T, std::mt19937& random) {
    const std::vector<TokenId> tokens{4, 9, 5};
    const std::int64_t rows = std::ssize(tokens), n = between(random, 1, 4), width = between(random, 3, 9);
    const auto values = [=](const std::vector<Array<T>>& in, const std::vector<TokenId>& ids) {
      return StreamGateValues<T>{.rows = rows,
                                 .streams = n,
                                 .width = width,
                                 .tokens = ids.data(),
                                 .image_token = 9,
                                 .x = in[0].data(),
                                 .projected = in[1].data(),
                                 .q_weight = in[2].data(),
                                 .k_weight = in[3].data(),
                                 .eps = 1e-20F};
    };
    return Problem<T>{
        {random_array<T>(rows * n * width, random), random_array<T>(rows * (n + 1) * width, random),
         random_array<T>(n * width, random), random_array<T>(n * width, random)},
        [=](const auto& in) {
          Array<T> out(in[0].size());
          stream_gates_forward(values(in, tokens), out.data());
          return out;
        },
        [=](const auto& in, const auto& dy, auto& d) {
          stream_gates_backward(values(in, tokens), dy.data(), d[0].data(), d[1].data(), d[2].data(),
                                d[3].data());
        }};
  });
}

TEST(Gradients, HcPost) {
  check_both([]<class T>(T, std::mt19937& random) {
    const int n = between(random, 2, 4);
    const auto args = [n](const std::vector<Array<T>>& in, T* y) {
      return HcPostArgsOf<T>{.f = {in[1].data(), {2, 3}},
                             .post = {in[2].data(), {2, n}},
                             .comb = {in[3].data(), {2, n, n}},
                             .precision = Precision::kExact,
                             .streams = {y, {2, n, 3}},
                             .before = {in[0].data(), {2, n, 3}}};
    };
    return Problem<T>{{random_array<T>(6 * n, random), random_array<T>(6, random),
                       random_array<T>(2 * n, random), random_array<T>(2 * n * n, random)},
                      [=](const auto& in) {
                        Array<T> y(in[0].size());
                        run_trained<ops::HcPost, T>(args(in, y.data()));
                        return y;
                      },
                      [=](const auto& in, const auto& dy, auto& d) {
                        hc_post_backward(args(in, nullptr), dy.data(), d[0].data(), d[1].data(), d[2].data(),
                                         d[3].data());
                      }};
  });
}

/// As the latents of two positions are made.
TEST(Gradients, PoolingWithoutPlaceBiases) {
  check_both([]<class T>(T, std::mt19937& random) {
    const PoolingValues<T> shape{.tokens = 4 + between(random, 0, 1), .ratio = 2, .width = 3};
    const auto values = [shape](const std::vector<Array<T>>& in) {
      PoolingValues<T> v = shape;
      v.k = in[0].data();
      v.g = in[1].data();
      return v;
    };
    return Problem<T>{{random_array<T>(shape.tokens * shape.width, random),
                       random_array<T>(shape.tokens * shape.width, random)},
                      [=](const auto& in) {
                        Array<T> e(static_cast<std::size_t>(shape.entries() * shape.width));
                        pooling_forward(values(in), e.data());
                        return e;
                      },
                      [=](const auto& in, const auto& dy, auto& d) {
                        Array<T> e(dy.size());
                        pooling_forward(values(in), e.data());
                        T* const no_biases = nullptr;
                        pooling_backward(values(in), e.data(), dy.data(), d[0].data(), d[1].data(),
                                         no_biases);
                      }};
  });
}

TEST(Gradients, CompressorPoolingWithAndWithoutOverlap) {
  for (const bool overlaps : {false, true}) {
    check_both([overlaps]<class T>(T, std::mt19937& random) {
      const std::int64_t ratio = between(random, 2, 4);
      PoolingValues<T> shape{
          .tokens = 3 * ratio + between(random, 0, 1), .ratio = ratio, .width = 3, .overlaps = overlaps};
      const auto values = [shape](const std::vector<Array<T>>& in) {
        PoolingValues<T> v = shape;
        v.k = in[0].data();
        v.g = in[1].data();
        v.ape = in[2].data();
        return v;
      };
      return Problem<T>{{random_array<T>(shape.tokens * shape.columns(), random),
                         random_array<T>(shape.tokens * shape.columns(), random),
                         random_array<T>(ratio * shape.columns(), random)},
                        [=](const auto& in) {
                          Array<T> e(static_cast<std::size_t>(shape.entries() * shape.width));
                          pooling_forward(values(in), e.data());
                          return e;
                        },
                        [=](const auto& in, const auto& dy, auto& d) {
                          Array<T> e(dy.size());
                          pooling_forward(values(in), e.data());
                          pooling_backward(values(in), e.data(), dy.data(), d[0].data(), d[1].data(),
                                           d[2].data());
                        }};
    });
  }
}

TEST(Gradients, AttentionWithSinkOverWindowAndEntries) {
  for (const int tokens : {5, 70}) {  // 70: two tiles of queries
    const auto make = [tokens]<class T>(T, std::mt19937& random) {
      const std::int64_t heads = 2;
      const std::int64_t width = 2;
      const std::int64_t entries = tokens / 4;
      Array<std::uint8_t> visible(static_cast<std::size_t>(tokens * entries));
      for (int t = 0; t < tokens; ++t) {
        for (int j = 0; j < (t + 1) / 4; ++j)
          visible[static_cast<std::size_t>(t * entries + j)] = (t + j) % 3 != 0;
      }
      const auto values = [=](const std::vector<Array<T>>& in, const Array<std::uint8_t>& seen) {
        return DenseAttentionValues<T>{.tokens = tokens,
                                       .heads = heads,
                                       .width = width,
                                       .window = 3,
                                       .entries = entries,
                                       .q = in[0].data(),
                                       .kv = in[1].data(),
                                       .entry = in[2].data(),
                                       .visible = seen.data(),
                                       .sink = in[3].data()};
      };
      return Problem<T>{
          {random_array<T>(tokens * heads * width, random), random_array<T>(tokens * width, random),
           random_array<T>(entries * width, random), random_array<T>(heads, random)},
          [=](const auto& in) {
            Array<T> o(in[0].size());
            Array<T> lse(static_cast<std::size_t>(tokens * heads));
            dense_attention_forward(values(in, visible), o.data(), lse.data());
            return o;
          },
          [=](const auto& in, const auto& dy, auto& d) {
            Array<T> o(in[0].size());
            Array<T> lse(static_cast<std::size_t>(tokens * heads));
            dense_attention_forward(values(in, visible), o.data(), lse.data());
            dense_attention_backward(values(in, visible), o.data(), lse.data(), dy.data(), d[0].data(),
                                     d[1].data(), d[2].data(), d[3].data());
          }};
    };
    check<double>(make, 1);
    check<float>(make, 1);
  }
}

TEST(Gradients, AttentionToEntriesIsSummedOverHeads) {
  constexpr std::int64_t kTokens = 9, kHeads = 3, kWidth = 2, kEntries = 2;
  std::mt19937 random(4);
  const Array<double> q = random_array<double>(kTokens * kHeads * kWidth, random);
  const Array<double> kv = random_array<double>(kTokens * kWidth, random);
  const Array<double> entry = random_array<double>(kEntries * kWidth, random);
  const Array<double> sink = random_array<double>(kHeads, random);
  Array<std::uint8_t> visible(kTokens * kEntries);
  for (std::size_t i = 0; i < visible.size(); ++i) visible[i] = i / kEntries >= 4 * (i % kEntries + 1) - 1;
  const DenseAttentionValues<double> v{.tokens = kTokens,
                                       .heads = kHeads,
                                       .width = kWidth,
                                       .window = 3,
                                       .entries = kEntries,
                                       .q = q.data(),
                                       .kv = kv.data(),
                                       .entry = entry.data(),
                                       .visible = visible.data(),
                                       .sink = sink.data()};
  Array<double> o(q.size()), lse(kTokens * kHeads), share(visible.size(), 7);
  dense_attention_forward(v, o.data(), lse.data(), share.data());
  for (std::size_t i = 0; i < visible.size(); ++i) {
    const std::size_t t = i / kEntries, s = i % kEntries;
    double sum = 0;
    for (std::size_t head = 0; head < kHeads && visible[i] != 0; ++head) {
      const std::size_t row = t * kHeads + head;
      const double dot = q[2 * row] * entry[2 * s] + q[2 * row + 1] * entry[2 * s + 1];
      sum += std::exp(dot / std::sqrt(2.0) - lse[row]);
    }
    EXPECT_NEAR(share[i], sum, 1e-12) << i;
  }
}

TEST(Gradients, IndexScores) {
  for (const int tokens : {9, 70}) {  // 70: two tiles of queries
    const auto make = [tokens]<class T>(T, std::mt19937& random) {
      const std::int64_t heads = 2, width = 3, entries = tokens / 4;
      const auto values = [=](const std::vector<Array<T>>& in) {
        return IndexScoreValues<T>{.tokens = tokens,
                                   .heads = heads,
                                   .width = width,
                                   .entries = entries,
                                   .ratio = 4,
                                   .q = in[0].data(),
                                   .k = in[1].data(),
                                   .weight = in[2].data()};
      };
      return Problem<T>{{random_array<T>(tokens * heads * width, random),
                         random_array<T>(entries * width, random), random_array<T>(tokens * heads, random)},
                        [=](const auto& in) {
                          Array<T> score(static_cast<std::size_t>(tokens * entries));
                          index_scores_forward(values(in), score.data());
                          return score;
                        },
                        [=](const auto& in, const auto& dy, auto& d) {
                          index_scores_backward(values(in), dy.data(), d[0].data(), d[1].data(), d[2].data());
                        }};
    };
    check<double>(make, 1);
    check<float>(make, 1);
  }
}

/// Three queries over four entries; the last one attends to none.
template <class T>
IndexerLossValues<T> loss_values(const Array<T>& share, const Array<T>& score) {
  static constexpr std::uint8_t kVisible[12] = {1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0};
  return {.tokens = 3,
          .entries = 4,
          .visible = kVisible,
          .share = share.data(),
          .score = score.data(),
          .scale = T(0.3)};
}

TEST(Gradients, IndexerLoss) {
  check_both([]<class T>(T, std::mt19937& random) {
    Array<T> share = random_array<T>(12, random);
    for (T& value : share) value = value * value;
    return Problem<T>{{random_array<T>(12, random, 3)},
                      [=](const auto& in) {
                        return Array<T>{static_cast<T>(indexer_loss_forward(loss_values(share, in[0])))};
                      },
                      [=](const auto& in, const auto& dy, auto& d) {
                        indexer_loss_backward(loss_values(share, in[0]), dy[0], d[0].data());
                      }};
  });
}

TEST(Gradients, TheIndexerLossIsZeroWhereScoresAreTheAttention) {
  Array<double> share{0.2, 0, 0, 0, 0.1, 9, 0.05, 0, 0, 0, 0, 0};
  Array<double> score(12);
  for (std::size_t i = 0; i < score.size(); ++i) score[i] = (std::log(share[i] + 1e-300) + 2) / 0.3;
  EXPECT_NEAR(indexer_loss_forward(loss_values(share, score)), 0, 1e-12);
  score[4] = score[6];  // where the attention has twice as much on the first as on the second
  EXPECT_NEAR(indexer_loss_forward(loss_values(share, score)),
              2.0 / 3 * std::log(4.0 / 3) + 1.0 / 3 * std::log(2.0 / 3), 1e-12);
}

TEST(Gradients, SequenceBalance) {
  check_both([]<class T>(T, std::mt19937& random) {
    const std::int64_t tokens = between(random, 1, 7);
    const auto values = [=](const Array<T>& z) {
      return SequenceBalanceValues<T>{.tokens = tokens, .experts = 5, .k = 2, .z = z.data()};
    };
    return Problem<T>{
        {random_array<T>(tokens * 5, random, 3)},
        [=](const auto& in) { return Array<T>{static_cast<T>(sequence_balance_forward(values(in[0])))}; },
        [=](const auto& in, const auto& dy, auto& d) {
          sequence_balance_backward(values(in[0]), dy[0], d[0].data());
        }};
  });
}

TEST(Gradients, SequenceBalanceIsOneWhereLoadsAreEven) {
  const Array<double> even{3, -1, -1, 3}, uneven{3, -1, 3, -1};
  SequenceBalanceValues<double> v{.tokens = 2, .experts = 2, .k = 1, .z = even.data()};
  EXPECT_NEAR(sequence_balance_forward(v), 1, 1e-12);
  v.z = uneven.data();
  const double high = route_score(3.0), low = route_score(-1.0);
  EXPECT_NEAR(sequence_balance_forward(v), 2 * high / (high + low), 1e-12);
}

TEST(Gradients, RouterScoresAndNormalisation) {
  check_both([]<class T>(T, std::mt19937& random) {
    const std::vector<std::int32_t> ids{1, 4, 2};
    return Problem<T>{{random_array<T>(6, random, 3)},
                      [=](const auto& in) {
                        Array<T> w(3);
                        route_weights(in[0].data(), ids.data(), 3, 1.5, w.data());
                        return w;
                      },
                      [=](const auto& in, const auto& dy, auto& d) {
                        route_backward(in[0].data(), ids.data(), 3, 1.5, dy.data(), d[0].data());
                      }};
  });
}

TEST(Gradients, SwigluOnBothSidesOfItsClamp) {
  check_both([]<class T>(T, std::mt19937& random) {
    return Problem<T>{
        {random_array<T>(20, random, 2), random_array<T>(20, random, 2), random_array<T>(4, random)},
        [](const auto& in) {
          Array<T> a(20);
          swiglu_forward<T>(4, 5, in[0].data(), in[1].data(), in[2].data(), 1.5F, false, a.data());
          return a;
        },
        [](const auto& in, const auto& dy, auto& d) {
          swiglu_backward<T>(4, 5, in[0].data(), in[1].data(), in[2].data(), 1.5F, dy.data(), d[0].data(),
                             d[1].data(), d[2].data());
        }};
  });
}

TEST(Gradients, ProductsDoNotDependOnThreads) {
  std::mt19937 random(5);
  const LinearShape s{.rows = 300, .in = 70, .out = 600};
  const Array<float> x = random_array<float>(s.rows * s.in, random);
  const Array<float> w = random_array<float>(s.out * s.in, random);
  std::vector<Array<float>> results;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    Array<float> y(static_cast<std::size_t>(s.rows * s.out));
    Array<float> dw(w.size());
    dense_linear(s, x.data(), w.data(), y.data(), pool);
    linear_backward<float>(s, x.data(), w.data(), y.data(), nullptr, dw.data(), pool);
    y.insert(y.end(), dw.begin(), dw.end());
    results.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace baleen
