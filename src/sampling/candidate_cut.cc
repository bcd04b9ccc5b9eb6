#include "sampling/candidate_cut.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "sampling/softmax_weights.h"

namespace baleen {
namespace {

bool in_order(const Candidate& a, const Candidate& b) { return a.before(b); }

double weight_of(const Candidate& candidate, float max, double temperature) {
  return std::exp((static_cast<double>(candidate.logit) - static_cast<double>(max)) / temperature);
}

// Top-p sorts logits into buckets by their distance below the largest, in units of temperature. 1/64 keeps a
// bucket of an ordinary distribution to hundreds of tokens at a vocabulary of 129,280; beyond 32 there is no
// probability worth telling apart, and the last bucket takes the rest. 16 KB of sums stay in the first-level
// cache.
constexpr double kBucketsPerUnit = 64.0;
constexpr std::size_t kNumBuckets = 32 * 64;

std::size_t bucket_of(float logit, float max, double buckets_per_logit) {
  const double bucket = (static_cast<double>(max) - static_cast<double>(logit)) * buckets_per_logit;
  return static_cast<std::size_t>(static_cast<std::int32_t>(std::min(bucket, kNumBuckets - 1.0)));
}

template <class Visit>  // visit(logits, weights) for each chunk of which `cut` keeps something
void for_each_kept_chunk(std::span<const float> logits, const CandidateCut& cut, float max,
                         double temperature, Visit&& visit) {
  std::array<double, kWeightChunk> weights;
  for (std::size_t first = 0; first < logits.size(); first += kWeightChunk) {
    const auto chunk = logits.subspan(first, std::min(kWeightChunk, logits.size() - first));
    const auto chunk_weights = std::span(weights).first(chunk.size());
    if (kept_weights(chunk, static_cast<TokenId>(first), cut, max, temperature, chunk_weights)) {
      visit(chunk, chunk_weights);
    }
  }
}

}  // namespace

CandidateCut min_p_cut(float max, double temperature, double min_p) {
  if (min_p == 0.0) return kKeepAll;
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const double threshold = std::max(kLowest, static_cast<double>(max) + temperature * std::log(min_p));
  auto lowest = static_cast<float>(threshold);
  if (static_cast<double>(lowest) < threshold) lowest = std::nextafter(lowest, max);
  return {lowest, kKeepAll.id};
}

bool kept_weights(std::span<const float> logits, TokenId first_id, const CandidateCut& cut, float max,
                  double temperature, std::span<double> weights) {
  if (!softmax_weights(logits, max, temperature, cut.logit, weights)) return false;
  // What remains is to drop the equals of the last candidate kept that come after it.
  for (std::int64_t i = std::max<std::int64_t>(0, std::int64_t{cut.id} + 1 - first_id);
       i < std::ssize(logits); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (logits[at] == cut.logit) weights[at] = 0.0;
  }
  return true;
}

CandidateCut CutFinder::top_k(std::span<const float> logits, const CandidateCut& cut, std::int64_t k) {
  // A buffer of 2k collects what beats the k-th best so far; each time it is full, the better half stays. A
  // token of an ordinary row is looked at once, and even a rising row moves each token through a linear
  // selection only twice.
  const auto keep =
      static_cast<std::size_t>(std::min<std::int64_t>(k, static_cast<std::int64_t>(logits.size())));
  CandidateCut shortest = cut;
  candidates_.clear();
  const auto drop_the_worse = [&] {
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(keep - 1);
    std::nth_element(candidates_.begin(), last, candidates_.end(), in_order);
    shortest = *last;
    candidates_.resize(keep);
  };
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] < shortest.logit) continue;
    const Candidate candidate{logits[id], static_cast<TokenId>(id)};
    if (!keeps(shortest, candidate)) continue;
    candidates_.push_back(candidate);
    if (candidates_.size() == 2 * keep) drop_the_worse();
  }
  if (candidates_.size() >= keep) drop_the_worse();
  return shortest;
}

CandidateCut CutFinder::top_p(std::span<const float> logits, const CandidateCut& cut, float max,
                              double temperature, double p) {
  if (p == 1.0) return cut;
  bucket_mass_.assign(kNumBuckets, 0.0);
  const double buckets_per_logit = kBucketsPerUnit / temperature;
  for_each_kept_chunk(logits, cut, max, temperature, [&](auto chunk, auto weights) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      bucket_mass_[bucket_of(chunk[i], max, buckets_per_logit)] += weights[i];
    }
  });
  const double total = std::accumulate(bucket_mass_.begin(), bucket_mass_.end(), 0.0);

  std::size_t boundary = 0;
  double needed = p * total;
  while (boundary < kNumBuckets - 1 && bucket_mass_[boundary] < needed) needed -= bucket_mass_[boundary++];

  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const Candidate candidate{logits[id], static_cast<TokenId>(id)};
    if (keeps(cut, candidate) && bucket_of(candidate.logit, max, buckets_per_logit) == boundary) {
      candidates_.push_back(candidate);
    }
  }
  // Only rounding in the last unit of a share of nearly 1 can lead into a last bucket that is empty.
  return candidates_.empty() ? cut : shortest_prefix(max, temperature, needed);
}

CandidateCut CutFinder::shortest_prefix(float max, double temperature, double needed) {
  auto begin = candidates_.begin(), end = candidates_.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, in_order);
    double mass = 0.0;
    for (auto it = begin; it != middle; ++it) mass += weight_of(*it, max, temperature);
    if (mass >= needed) {
      end = middle;
    } else {
      needed -= mass;
      begin = middle;
    }
  }
  return *begin;
}

}  // namespace baleen
