// Floats of hc_pre_backward.h. Sums over a token's streams run along its values; sigmoids and Sinkhorn with
// its gradient run on a group of tokens at once, one a lane. Lanes do not meet but in the sums over tokens,
// which go through the lanes in order.

#include "ops/hc_pre/hc_pre_backward.h"

#include <algorithm>
#include <vector>

#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/hc_pre/hc_pre_backward_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/row_products.h"
#include "ops/hc_pre/hc_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

using TokenTag = hn::ScalableTag<float>;
using TokenVec = hn::Vec<TokenTag>;
constexpr std::int64_t kTokenLanes = hn::MaxLanes(TokenTag());

/// One value of each token. Arrays of them are vectors one behind the other, as hc_mix-inl.h takes them.
struct alignas(kTokenLanes * sizeof(float)) Lanes {
  float at[kTokenLanes];

  [[nodiscard]] HWY_INLINE TokenVec get() const { return hn::Load(TokenTag(), at); }
  HWY_INLINE void set(TokenVec value) { hn::Store(value, TokenTag(), at); }
};

using Matrices = Lanes[kMaxStreams * kMaxStreams];  ///< [n, n] of each token

/// As Sinkhorn<float> with a matrix a lane, as the forward of `training` computes it.
class LaneSinkhorn {
 public:
  LaneSinkhorn(std::int64_t n, int iterations, float eps)
      : n_(n),
        iterations_(iterations),
        num_steps_(2 * iterations - 1),
        eps_(eps),
        sums_(static_cast<std::size_t>(num_steps_ * n)),
        inverses_(sums_.size()) {}

  /// a becomes comb.
  HWY_INLINE void forward(Matrices& a) {
    sinkhorn_simd<true>(TokenTag(), a[0].at, n_, iterations_, eps_,
                        {soft_[0].at, sums_[0].at, inverses_[0].at});
  }

  /// dcomb becomes da, after `forward`, which gave `comb`; comb is used up.
  HWY_INLINE void backward(Matrices& comb, Matrices& dcomb) const {
    const TokenTag d;
    for (std::int64_t step = num_steps_ - 1; step >= 0; --step) {
      for (std::int64_t line = 0; line < n_; ++line) {
        const TokenVec sum = sums_[divisor(step, line)].get();
        const TokenVec inverse = inverses_[divisor(step, line)].get();
        TokenVec dot = hn::Zero(d);
        for (std::int64_t i = 0; i < n_; ++i)
          dot = hn::MulAdd(dcomb[at(step, line, i)].get(), comb[at(step, line, i)].get(), dot);
        for (std::int64_t i = 0; i < n_; ++i) {
          Lanes& gradient = dcomb[at(step, line, i)];
          Lanes& value = comb[at(step, line, i)];
          gradient.set(hn::Mul(hn::Sub(gradient.get(), dot), inverse));
          value.set(hn::Mul(value.get(), sum));
        }
      }
    }
    for (std::int64_t row = 0; row < n_; ++row) {
      TokenVec dot = hn::Zero(d);
      for (std::int64_t k = 0; k < n_; ++k)
        dot = hn::MulAdd(dcomb[row * n_ + k].get(), soft_[row * n_ + k].get(), dot);
      for (std::int64_t k = 0; k < n_; ++k) {
        Lanes& gradient = dcomb[row * n_ + k];
        gradient.set(hn::Mul(soft_[row * n_ + k].get(), hn::Sub(gradient.get(), dot)));
      }
    }
  }

 private:
  /// Even steps divide columns, odd steps rows.
  [[nodiscard]] std::int64_t at(std::int64_t step, std::int64_t line, std::int64_t i) const {
    return step % 2 == 0 ? i * n_ + line : line * n_ + i;
  }
  [[nodiscard]] std::size_t divisor(std::int64_t step, std::int64_t line) const {
    return static_cast<std::size_t>(step * n_ + line);
  }

  std::int64_t n_;
  int iterations_;
  std::int64_t num_steps_;
  float eps_;
  Matrices soft_;
  std::vector<Lanes> sums_, inverses_;  ///< [steps, n]
};

/// Up to a vector of tokens from `begin` on. Lanes without a token hold zeros.
class Group {
 public:
  Group(const HcMixing<float>& v, std::int64_t begin, std::int64_t count)
      : v_(v), begin_(begin), count_(count), n_(v.streams) {
    std::fill_n(&rho_.at[0], kTokenLanes, 0.0F);
    for (std::int64_t i = 0; i < v.mixes(); ++i) {
      for (std::int64_t lane = 0; lane < kTokenLanes; ++lane)
        raw_[i].at[lane] = lane < count ? v.raw[(begin + lane) * v.mixes() + i] : 0.0F;
    }
    for (std::int64_t lane = 0; lane < count; ++lane)
      rho_.at[lane] = inverse_rms_simd(x(lane), n_ * v.width, v.norm_eps);
  }

  HWY_INLINE void backward(const HcGradients<float>& g, LaneSinkhorn& sinkhorn) const {
    const TokenTag d;
    const TokenVec one = hn::Set(d, 1.0F);
    Lanes pre[kMaxStreams];
    Lanes da[(2 + kMaxStreams) * kMaxStreams];
    dots_with_du(g.du, da);
    for (std::int64_t j = 0; j < n_; ++j) {
      const TokenVec sigma = sigmoid_simd(d, coefficient(j));
      pre[j].set(hn::Add(sigma, hn::Set(d, v_.hc_eps)));
      if (v_.incoming != nullptr) {
        add(da[j], g.dincoming + j, n_);
        da[j] = gather(g.dpre + j, n_);
        pre[j] = gather(v_.incoming + j, n_);
      }
      da[j].set(hn::Mul(hn::Mul(da[j].get(), sigma), hn::Sub(one, sigma)));
    }
    if (!v_.head_only) {
      for (std::int64_t j = 0; j < n_; ++j) {
        const TokenVec post = gather(v_.post + j, n_).get();
        const TokenVec slope = hn::Mul(post, hn::Sub(one, hn::Mul(hn::Set(d, 0.5F), post)));
        da[n_ + j].set(hn::Mul(gather(g.dpost + j, n_).get(), slope));
      }
      Matrices comb;
      Matrices dcomb;
      combination(comb);
      for (std::int64_t i = 0; i < n_ * n_; ++i) dcomb[i] = gather(g.dcomb + i, n_ * n_);
      sinkhorn.forward(comb);
      sinkhorn.backward(comb, dcomb);
      std::copy_n(dcomb, n_ * n_, da + 2 * n_);
    }
    add_to_inputs(g, pre, to_raw(g, da));
  }

 private:
  [[nodiscard]] const float* x(std::int64_t lane) const { return v_.x + (begin_ + lane) * n_ * v_.width; }
  [[nodiscard]] std::int64_t part(std::int64_t mix) const { return std::min<std::int64_t>(mix / n_, 2); }

  /// raw rho scale + base
  [[nodiscard]] HWY_INLINE TokenVec coefficient(std::int64_t mix) const {
    const TokenTag d;
    return hn::MulAdd(hn::Mul(raw_[mix].get(), rho_.get()), hn::Set(d, v_.scale[part(mix)]),
                      hn::Set(d, v_.base[mix]));
  }
  HWY_INLINE void combination(Matrices& a) const {
    for (std::int64_t i = 0; i < n_ * n_; ++i) a[i].set(coefficient(2 * n_ + i));
  }

  [[nodiscard]] Lanes gather(const float* from, std::int64_t stride) const {
    Lanes values{};
    for (std::int64_t lane = 0; lane < count_; ++lane) values.at[lane] = from[(begin_ + lane) * stride];
    return values;
  }
  void scatter(const Lanes& values, float* to, std::int64_t stride) const {
    for (std::int64_t lane = 0; lane < count_; ++lane) to[(begin_ + lane) * stride] = values.at[lane];
  }

  void add(const Lanes& values, float* to, std::int64_t stride) const {
    for (std::int64_t lane = 0; lane < count_; ++lane) to[(begin_ + lane) * stride] += values.at[lane];
  }

  /// <x_j, du> of each token.
  void dots_with_du(const float* du, Lanes* dots) const {
    std::fill_n(dots, n_, Lanes{});
    const float* streams[kMaxStreams];
    float products[kMaxStreams];
    for (std::int64_t lane = 0; lane < count_; ++lane) {
      const float* const row = du + (begin_ + lane) * v_.width;
      for (std::int64_t j = 0; j < n_; ++j) streams[j] = x(lane) + j * v_.width;
      row_math::dot_all(v_.streams, streams, 1, &row, v_.width, products);
      for (std::int64_t j = 0; j < n_; ++j) dots[j].at[lane] = products[j];
    }
  }

  /// Gradients of raw, scale and base. Returns what pulls x: rho depends on x too.
  [[nodiscard]] HWY_INLINE Lanes to_raw(const HcGradients<float>& g, const Lanes* da) const {
    const TokenTag d;
    const TokenVec rho = rho_.get();
    TokenVec along = hn::Zero(d);  // <dm, m>
    for (std::int64_t i = 0; i < v_.mixes(); ++i) {
      const TokenVec m = hn::Mul(raw_[i].get(), rho);
      const TokenVec dm = hn::Mul(da[i].get(), hn::Set(d, v_.scale[part(i)]));
      along = hn::MulAdd(dm, m, along);
      Lanes draw;
      Lanes dscale;
      draw.set(hn::Mul(rho, dm));
      dscale.set(hn::Mul(da[i].get(), m));
      scatter(draw, g.draw + i, v_.mixes());
      for (std::int64_t lane = 0; lane < count_; ++lane) {
        g.dbase[i] += da[i].at[lane];
        g.dscale[part(i)] += dscale.at[lane];
      }
    }
    Lanes pull;
    pull.set(
        hn::Mul(hn::Mul(rho, rho), hn::Mul(along, hn::Set(d, 1.0F / static_cast<float>(n_ * v_.width)))));
    return pull;
  }

  /// dx_j += pre_j du - pull x_j
  HWY_INLINE void add_to_inputs(const HcGradients<float>& g, const Lanes* pre, const Lanes& pull) const {
    for (std::int64_t lane = 0; lane < count_; ++lane) {
      const float* const du = g.du + (begin_ + lane) * v_.width;
      for (std::int64_t j = 0; j < n_; ++j) {
        const float* const stream = x(lane) + j * v_.width;
        float* const dx = g.dx + ((begin_ + lane) * n_ + j) * v_.width;
        const float to_du = pre[j].at[lane];
        const float to_x = pull.at[lane];
        for_each_vector(v_.width, [=](auto d, std::int64_t i) HWY_ATTR {
          const auto sum = hn::MulAdd(hn::Set(d, to_du), hn::LoadU(d, du + i), hn::LoadU(d, dx + i));
          hn::StoreU(hn::NegMulAdd(hn::Set(d, to_x), hn::LoadU(d, stream + i), sum), d, dx + i);
        });
      }
    }
  }

  const HcMixing<float>& v_;
  std::int64_t begin_, count_, n_;
  Lanes raw_[(2 + kMaxStreams) * kMaxStreams];
  Lanes rho_;
};

void mix_backward(const HcMixing<float>& v, const HcGradients<float>& g) {
  LaneSinkhorn sinkhorn(v.streams, v.sinkhorn_iterations, v.hc_eps);
  for (std::int64_t row = 0; row < v.rows; row += kTokenLanes)
    Group(v, row, std::min(kTokenLanes, v.rows - row)).backward(g, sinkhorn);
}

}  // namespace
}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(mix_backward);

template <>
void hc_mix_backward(const HcMixing<float>& v, const HcGradients<float>& g) {
  HWY_DYNAMIC_DISPATCH(mix_backward)(v, g);
}

}  // namespace baleen
#endif
