#include "model/engram_tables.h"

#include <array>
#include <bit>

#include "base/check.h"

namespace baleen {
namespace {

__extension__ using U128 = unsigned __int128;

/// NumPy's `SeedSequence` of one number below 2^32, and the four words that it gives a generator.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint32_t seed) {
    std::uint32_t factor = 0x43b0d7e5;
    const auto mixed_in = [&factor](std::uint32_t value) {
      value ^= factor;
      factor *= 0x931e8875;
      value *= factor;
      return value ^ value >> 16;
    };
    for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = mixed_in(i == 0 ? seed : 0);
    for (std::size_t from = 0; from < pool_.size(); ++from) {
      for (std::size_t to = 0; to < pool_.size(); ++to) {
        if (from == to) continue;
        const std::uint32_t value = 0xca01f9dd * pool_[to] - 0x4973f715 * mixed_in(pool_[from]);
        pool_[to] = value ^ value >> 16;
      }
    }
  }

  [[nodiscard]] std::array<std::uint64_t, 4> state() const {
    std::array<std::uint64_t, 4> words{};
    std::uint32_t factor = 0x8b51f9dd;
    for (std::size_t i = 0; i < 2 * words.size(); ++i) {
      std::uint32_t value = pool_[i % pool_.size()] ^ factor;
      factor *= 0x58f38ded;
      value *= factor;
      value ^= value >> 16;
      words[i / 2] |= std::uint64_t{value} << 32 * (i % 2);
    }
    return words;
  }

 private:
  std::array<std::uint32_t, 4> pool_{};
};

/// NumPy's `default_rng(seed)`: PCG64, of which multipliers take integers below a bound beyond 2^32.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(std::uint32_t seed) {
    const auto [high, low, increment_high, increment_low] = SeedSequence(seed).state();
    increment_ = (U128{increment_high} << 64 | increment_low) << 1 | 1;
    step();
    state_ += U128{high} << 64 | low;
    step();
  }

  /// Uniform in [0, bound): the high half of a product, redrawn where the low half would favour some numbers.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    U128 product = 0;
    do {
      product = U128{next()} * bound;
    } while (static_cast<std::uint64_t>(product) < threshold);
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  void step() {
    constexpr U128 kMultiplier = U128{2549297995355413924ULL} << 64 | 4865540595714422341ULL;
    state_ = state_ * kMultiplier + increment_;
  }
  std::uint64_t next() {
    step();
    return std::rotr(static_cast<std::uint64_t>(state_ >> 64 ^ state_), static_cast<int>(state_ >> 122));
  }

  U128 state_ = 0, increment_ = 0;
};

bool is_prime(std::int64_t number) {
  if (number < 4) return number > 1;
  if (number % 2 == 0) return false;
  for (std::int64_t divisor = 3; divisor * divisor <= number; divisor += 2)
    if (number % divisor == 0) return false;
  return true;
}

}  // namespace

std::vector<EngramTable> engram_tables(const EngramConfig& engram) {
  constexpr std::int64_t kSeed = 10007;
  const auto bound = static_cast<std::uint64_t>(INT64_MAX / engram.compressed_vocab_size / 2);
  std::vector<EngramTable> tables;
  std::int64_t candidate = engram.vocab_size;
  for (const std::int64_t layer : engram.layer_ids) {
    EngramTable& table = tables.emplace_back();
    NumpyGenerator generator(static_cast<std::uint32_t>(kSeed * layer));
    for (std::int64_t i = 0; i < engram.max_ngram_size; ++i)
      table.multipliers.push_back(2 * static_cast<std::int64_t>(generator.below(bound)) + 1);
    std::int64_t offset = 0;
    for (std::int64_t i = 0; i < engram.num_hashes(); ++i, ++candidate) {
      while (!is_prime(candidate)) ++candidate;
      table.primes.push_back(candidate);
      table.offsets.push_back(offset);
      offset += candidate;
    }
  }
  return tables;
}

void engram_rows(const EngramTable& table, const EngramTokens& tokens, std::span<const TokenId> before,
                 std::span<const TokenId> ids, View<std::int64_t, 2> rows) {
  BALEEN_CHECK_EQ(rows.extent(0), std::ssize(ids));
  const auto max_ngram = std::ssize(table.multipliers);
  const std::int64_t heads = std::ssize(table.primes) / (max_ngram - 1);
  for (std::int64_t at = 0; at < std::ssize(ids); ++at) {
    std::int64_t hash = 0;
    bool is_text = true;
    for (std::int64_t back = 0; back < max_ngram; ++back) {
      const std::int64_t from = at - back;
      is_text = is_text && from + std::ssize(before) >= 0;
      TokenId id = tokens.pad_token;
      if (is_text)
        id = from >= 0 ? ids[static_cast<std::size_t>(from)]
                       : before[static_cast<std::size_t>(from + std::ssize(before))];
      is_text = is_text && id != tokens.image_token;
      if (!is_text) id = tokens.pad_token;
      hash ^= std::int64_t{tokens.compressed[static_cast<std::size_t>(id)]} *
              table.multipliers[static_cast<std::size_t>(back)];
      if (back == 0) continue;
      for (std::int64_t i = (back - 1) * heads; i < back * heads; ++i) {
        const auto place = static_cast<std::size_t>(i);
        rows(at, i) = table.offsets[place] + hash % table.primes[place];
      }
    }
  }
}

}  // namespace baleen
