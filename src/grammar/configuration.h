/// Where a text stands in a grammar: every way in which it can be read so far.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "grammar/graph.h"

namespace baleen {

class CompiledGrammar;

inline constexpr std::int32_t kBottom = -1;

/// A tree of frames (parents before children) and the readings, each a node that reads a byte and a top of
/// stack. Ordinary values of a few hundred bytes; one or two readings nearly always.
struct Configuration {
  struct Frame {
    NodeId node = kNoNode;  ///< a return: where to go on; else the kPush that owns it
    std::int32_t parent = kBottom;
    std::uint64_t value = 0;  ///< a count, or the members of a set
    std::int16_t depth = 0;   ///< returns up to here, this one included
    bool is_return = false;
    bool operator==(const Frame&) const = default;
  };
  struct Reading {
    NodeId node = kNoNode;
    std::int32_t top = kBottom;
    auto operator<=>(const Reading&) const = default;
  };
  std::vector<Frame> frames;
  std::vector<Reading> readings;  ///< sorted, each once
  bool may_end = false;           ///< some reading is complete

  [[nodiscard]] bool is_dead() const { return readings.empty() && !may_end; }
  bool operator==(const Configuration&) const = default;
};

/// Follows a grammar. Holds scratch memory only; not for two threads at once.
class Stepper {
 public:
  /// Returns may nest `depth_limit` deep.
  explicit Stepper(const CompiledGrammar& grammar, int depth_limit = kMaxCallDepth)
      : grammar_(grammar), depth_limit_(depth_limit) {}

  /// The beginning of the grammar, on an empty stack.
  void begin(Configuration& to);
  /// Beginning at `node` on top of `top` of the frames already in `to`, whose readings are replaced.
  void begin_at(NodeId node, std::int32_t top, Configuration& to);
  /// `to` must not be `from`.
  void step(const Configuration& from, std::uint8_t byte, Configuration& to);
  /// All of `bytes`, and drops the frames that are left over. False, with `at` as it was, when they do not
  /// fit.
  bool advance(Configuration& at, std::string_view bytes);

  /// The deepest that any permitted reading needed, over all calls: limits at or above it would have changed
  /// nothing.
  [[nodiscard]] int needed_depth() const { return needed_depth_; }
  /// Whether `edge` may be followed from a reading on top of `top`.
  [[nodiscard]] bool permits(const Configuration& at, NodeId node, std::int32_t top) const;

 private:
  void enter(NodeId node, std::int32_t top, Configuration& to);
  static std::int32_t push_frame(Configuration& to, Configuration::Frame frame);
  void enter_count(const Node& node, std::int32_t top, Configuration& to);
  void enter_set_next(const Node& node, std::int32_t top, Configuration& to);

  const CompiledGrammar& grammar_;
  int depth_limit_;
  int needed_depth_ = 0;
  std::vector<Configuration::Reading> work_;
  Configuration current_, next_;
};

/// Sorts, removes frames that no reading stands on, and merges equal ones, so that equal configurations
/// become equal values (nearly always).
void tidy(Configuration& at);

/// A reply that can be read in more ways than this keeps only the first of them: still every text it allows
/// fits the grammar, but some that fit are no longer allowed.
inline constexpr std::size_t kMaxReadings = 2048;

}  // namespace baleen
