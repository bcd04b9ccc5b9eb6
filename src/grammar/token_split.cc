#include "grammar/token_split.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "grammar/compiled_grammar.h"

namespace baleen {
namespace {

/// Deeper than any reply nests, lower than kUnreachable.
constexpr int kNoDepthLimit = 30'000;
constexpr std::size_t kFewTokens = 512;

/// Configurations within one rule, numbered, with their transitions as far as they were needed: a walk over
/// the vocabulary meets the same few again and again.
class RuleAutomaton {
 public:
  static constexpr std::int32_t kDead = -1;

  RuleAutomaton(Stepper& stepper, Configuration start) : stepper_(stepper) { number_of(std::move(start)); }

  std::int32_t next(std::int32_t state, std::uint8_t byte) {
    const std::int32_t known = transitions_[state][byte];
    return known != kUnknown ? known : compute(state, byte);
  }
  [[nodiscard]] bool may_end(std::int32_t state) const { return configurations_[state].may_end; }

 private:
  static constexpr std::int32_t kUnknown = -2;

  std::int32_t compute(std::int32_t state, std::uint8_t byte) {
    stepper_.step(configurations_[state], byte, scratch_);
    const std::int32_t target = scratch_.is_dead() ? kDead : number_of(scratch_);
    transitions_[state][byte] = target;
    return target;
  }

  std::int32_t number_of(Configuration configuration) {
    tidy(configuration);
    std::string key(1, configuration.may_end ? '1' : '0');
    const auto append = [&key](auto number) {
      key.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    for (const Configuration::Reading& reading : configuration.readings) {
      append(reading.node);
      for (std::int32_t f = reading.top; f != kBottom; f = configuration.frames[f].parent) {
        append(configuration.frames[f].node);
        append(configuration.frames[f].value);
        append(configuration.frames[f].is_return);
      }
      append(kNoNode);
    }
    const auto [found, is_new] =
        numbers_.try_emplace(std::move(key), static_cast<std::int32_t>(transitions_.size()));
    if (is_new) {
      configurations_.push_back(std::move(configuration));
      transitions_.emplace_back().fill(kUnknown);
    }
    return found->second;
  }

  Stepper& stepper_;
  Configuration scratch_;
  std::vector<Configuration> configurations_;
  std::vector<std::array<std::int32_t, 256>> transitions_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

/// Walks tokens in the order of their bytes and notes which the rule reads, and which run past its end.
class SplitWalk {
 public:
  SplitWalk(const MaskVocabulary& vocabulary, RuleAutomaton& automaton)
      : vocabulary_(vocabulary), automaton_(automaton), states_(vocabulary.longest_token() + 1) {}

  TokenSplit run() {
    for (int byte = 0; byte < 256; ++byte) {
      if (automaton_.next(0, static_cast<std::uint8_t>(byte)) != RuleAutomaton::kDead)
        walk(vocabulary_.beginning_with(static_cast<std::uint8_t>(byte)));
    }
    return take();
  }

 private:
  void walk(std::span<const MaskVocabulary::Entry> entries) {
    std::size_t read = 0;  // bytes of the last entry that the rule can read; states_[0, read] are valid
    ends_.clear();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string_view bytes = entries[i].bytes;
      const std::size_t shared = i == 0 ? 0 : entries[i].shared;
      if (shared <= read) {
        read = shared;
        while (!ends_.empty() && ends_.back() > read) ends_.pop_back();
        while (read < bytes.size()) {
          const std::int32_t next = automaton_.next(states_[read], static_cast<std::uint8_t>(bytes[read]));
          if (next == RuleAutomaton::kDead) break;
          states_[++read] = next;
          if (automaton_.may_end(next)) ends_.push_back(read);
        }
        if (read == bytes.size()) {
          allowed_.push_back(entries[i].token);
          continue;
        }
      }  // else it shares the very byte at which the last one failed
      for (const std::size_t end : ends_) split_.tails.push_back({bytes.substr(end), entries[i].token, 0});
    }
  }

  TokenSplit take() {
    if (allowed_.size() <= kFewTokens) {
      split_.few = std::move(allowed_);
    } else {
      split_.allowed.resize(vocabulary_.mask_words());
      for (const TokenId token : allowed_) allow(split_.allowed, token);
    }
    std::ranges::sort(split_.tails, {},
                      [](const TokenSplit::Tail& tail) { return std::pair(tail.bytes, tail.token); });
    for (std::size_t i = 1; i < split_.tails.size(); ++i) {
      split_.tails[i].shared =
          static_cast<std::uint16_t>(shared_beginning(split_.tails[i - 1].bytes, split_.tails[i].bytes));
    }
    split_.tails.shrink_to_fit();
    return std::move(split_);
  }

  const MaskVocabulary& vocabulary_;
  RuleAutomaton& automaton_;
  std::vector<std::int32_t>
      states_;                     ///< [longest token + 1], after so many bytes; states_[0] is the start, 0
  std::vector<std::size_t> ends_;  ///< bytes after which the rule may have ended
  std::vector<TokenId> allowed_;
  TokenSplit split_;
};

/// A counter's value in place of all that no token can tell from it: whose next threshold is out of reach.
std::uint64_t representative(const Graph& graph, const Node& counter, std::uint64_t value,
                             std::uint64_t longest_token) {
  const std::span<const std::uint64_t> thresholds = graph.thresholds_of(counter);
  if (thresholds.empty()) return value;  // a set
  const auto next = std::ranges::upper_bound(thresholds, value);
  if (next != thresholds.end() && *next - value <= longest_token) return value;
  return next == thresholds.begin() ? 0 : *(next - 1);
}

/// The reading with the frames of its own rule, and nothing below.
Configuration within_rule(const CompiledGrammar& grammar, const MaskVocabulary& vocabulary,
                          const Configuration& at, const Configuration::Reading& reading) {
  Configuration local;
  for (std::int32_t f = reading.top; f != kBottom && !at.frames[f].is_return; f = at.frames[f].parent)
    local.frames.push_back(at.frames[f]);
  std::ranges::reverse(local.frames);
  for (std::size_t i = 0; i < local.frames.size(); ++i) {
    Configuration::Frame& frame = local.frames[i];
    frame.parent = static_cast<std::int32_t>(i) - 1;
    frame.depth = 0;
    frame.value =
        representative(grammar.graph(), grammar.node(frame.node), frame.value, vocabulary.longest_token());
  }
  local.readings = {{reading.node, static_cast<std::int32_t>(local.frames.size()) - 1}};
  return local;
}

TokenSplit compute_split(const CompiledGrammar& grammar, const MaskVocabulary& vocabulary,
                         Configuration local, int depth_limit) {
  Stepper stepper(grammar, depth_limit);
  RuleAutomaton automaton(stepper, std::move(local));
  TokenSplit split = SplitWalk(vocabulary, automaton).run();
  split.needed_depth = stepper.needed_depth();
  return split;
}

}  // namespace

std::size_t TokenSplit::size_bytes() const {
  return sizeof *this + allowed.capacity() * sizeof allowed[0] + few.capacity() * sizeof few[0] +
         tails.capacity() * sizeof tails[0];
}

std::int32_t return_frame(const Configuration& at, const Configuration::Reading& reading) {
  std::int32_t f = reading.top;
  while (f != kBottom && !at.frames[f].is_return) f = at.frames[f].parent;
  return f;
}

std::shared_ptr<const TokenSplit> split_of(const CompiledGrammar& grammar, const MaskVocabulary& vocabulary,
                                           const Configuration& at, const Configuration::Reading& reading) {
  const Configuration local = within_rule(grammar, vocabulary, at, reading);
  const std::int32_t caller = return_frame(at, reading);
  const int depth_left = kMaxCallDepth - (caller == kBottom ? 0 : at.frames[caller].depth);
  const bool is_builtin = grammar.is_builtin(reading.node);
  SplitCache& cache = is_builtin ? vocabulary.builtin_splits() : grammar.splits();

  std::string key;
  const auto append = [&key](auto number) {
    key.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  append(is_builtin ? 0 : vocabulary.serial());
  append(reading.node);
  for (const Configuration::Frame& frame : local.frames) {
    append(frame.node);
    append(frame.value);
  }
  // Nearly no rule nests so deep within a token that the limit matters; where one does, its split is per
  // depth.
  for (const int depth_limit : {kNoDepthLimit, depth_left}) {
    append(depth_limit);
    std::shared_ptr<const TokenSplit> split = cache.find(key);
    if (!split) {
      split = std::make_shared<const TokenSplit>(compute_split(grammar, vocabulary, local, depth_limit));
      cache.insert(key, split, split->size_bytes());
    }
    if (split->needed_depth <= depth_left) return split;
  }
  return nullptr;  // not reached: with the limit itself no more than the limit is needed
}

}  // namespace baleen
