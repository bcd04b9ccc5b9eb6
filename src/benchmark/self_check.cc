#include "benchmark/self_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "benchmark/phase.h"
#include "model/presets.h"
#include "model_files/made_up.h"
#include "ops/operation/variant.h"
#include "parallel/thread_pool.h"
#include "rank_engine/rank_engine.h"

namespace baleen {
namespace {

/// A prompt, of which the index selects some keys, and single tokens behind it.
constexpr std::int64_t kPromptTokens = 150, kDecodedTokens = 6;

class Checker {
 public:
  Checker(std::string model, int num_threads)
      : num_threads_(num_threads), check_{.model = std::move(model), .checked = {}} {
    ThreadPool pool(num_threads);
    const ModelConfig config = preset_config(check_.model);
    weights_ = made_up_weights(config, 1, pool, MadeUpBytes::kOfEachTensor);
    tokens_ = some_tokens(kPromptTokens + kDecodedTokens, config.vocab_size);
    want_ = logits({}, {{"", std::string(kReferenceVariant)}}, nullptr);
    check_.cpu_median_error = median_error(logits({}, {}, nullptr));
  }

  SelfCheck run(const DeviceChoice& device) {
    VariantReport report;
    check({}, device, &report);
    for (const auto& [operation, variant] : others(report))
      check({.operation = operation, .variant = variant}, device, nullptr);
    return std::move(check_);
  }

 private:
  /// Of each operation, variants that took all calls of this model and were not chosen for all; but for the
  /// references, which the others are held against.
  static std::vector<std::pair<std::string, std::string>> others(const VariantReport& report) {
    struct Seen {
      bool refused = false, passed_over = false;
    };
    std::map<std::pair<std::string, std::string>, Seen> seen;
    for (const VariantVerdict& verdict : report.verdicts()) {
      Seen& one = seen[{std::string(verdict.operation), std::string(verdict.variant)}];
      one.refused |= verdict.outcome == VariantOutcome::kRefused;
      one.passed_over |= verdict.outcome != VariantOutcome::kChosen;
    }
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& [name, one] : seen)
      if (one.passed_over && !one.refused && name.second != kReferenceVariant) found.push_back(name);
    return found;
  }

  void check(CheckedVariant one, const DeviceChoice& device, VariantReport* report) {
    try {
      std::vector<ForcedVariant> forced;
      if (!one.variant.empty()) forced.push_back({one.operation, one.variant});
      one.median_error = median_error(logits(device, forced, report));
      one.agrees = one.median_error < 2 * check_.cpu_median_error;
    } catch (const LostDevice&) {
      throw;
    } catch (const Error& error) {
      one.failure = error.what();
    }
    check_.checked.push_back(std::move(one));
  }

  /// Of every position, row after row.
  [[nodiscard]] std::vector<float> logits(const DeviceChoice& device, std::vector<ForcedVariant> forced,
                                          VariantReport* report) const {
    const auto engine = open_engine(weights_, {.device = device,
                                               .num_threads = num_threads_,
                                               .max_batch_tokens = kPromptTokens,
                                               .max_logit_rows = kPromptTokens,
                                               .cache_tokens = kPageTokens,
                                               .forced_variants = std::move(forced)});
    if (report != nullptr) engine->device().set_report(report);
    const SequenceId sequence = *engine->open({});
    std::vector<float> rows;
    const auto step = [&](std::span<const TokenId> tokens) {
      const StepInput input{sequence, tokens, WantedLogits::kAll};
      const Result<StepOutput> output = engine->step({&input, 1});
      if (!output) fail("{}", output.error());
      const auto& logits = output.value().logits;
      rows.insert(rows.end(), logits.data(), logits.data() + logits.size());
    };
    const std::span<const TokenId> all(tokens_);
    step(all.first(kPromptTokens));
    for (std::size_t i = kPromptTokens; i < all.size(); ++i) step(all.subspan(i, 1));
    engine->close(sequence, false);
    if (report != nullptr) engine->device().set_report(nullptr);
    return rows;
  }

  [[nodiscard]] double median_error(std::span<const float> got) const {
    const std::size_t width = want_.size() / tokens_.size();
    std::vector<double> errors;
    for (std::size_t begin = 0; begin < want_.size(); begin += width) {
      double difference = 0, norm = 0;
      for (std::size_t i = begin; i < begin + width; ++i) {
        const double d = static_cast<double>(got[i]) - want_[i];
        difference += d * d;
        norm += static_cast<double>(want_[i]) * want_[i];
      }
      errors.push_back(std::sqrt(difference / norm));
    }
    std::ranges::sort(errors);
    return errors[errors.size() / 2];
  }

  int num_threads_;
  SelfCheck check_;
  std::shared_ptr<const ModelWeights> weights_;
  std::vector<TokenId> tokens_;
  std::vector<float> want_;
};

}  // namespace

std::vector<SelfCheck> self_check(const DeviceChoice& device, int num_threads) {
  std::vector<SelfCheck> checks;
  for (const char* model : {"tiny-flash", "tiny-real-heads"})
    checks.push_back(Checker(model, num_threads).run(device));
  return checks;
}

}  // namespace baleen
