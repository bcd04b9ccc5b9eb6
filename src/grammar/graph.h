/// A grammar as a graph over bytes with a stack: what json_schema_grammar and tool_calls_grammar compile to.
///
/// A node reads one byte, or does something with the stack and goes on at once. A rule is a subgraph that
/// ends in kReturn; calling it pushes where to go on. Counters (repetitions) and sets (parameters already
/// written) are frames of the same stack, so bounds cost no nodes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace baleen {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();

/// Of a counter: no upper bound.
inline constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

/// Nodes of one grammar; about 64 bytes each.
inline constexpr std::size_t kMaxNodes = 200'000;

/// Calls may nest this deep: 64 levels of JSON beside the calls of scalars and tools.
inline constexpr int kMaxCallDepth = 66;

/// Height of a node from which no end can be reached.
inline constexpr std::uint16_t kUnreachable = std::numeric_limits<std::uint16_t>::max();

struct ByteEdge {
  std::uint8_t first = 0, last = 0;
  NodeId target = kNoNode;
  bool operator==(const ByteEdge&) const = default;
};

/// Values of a counter, the last included.
struct CountRange {
  std::uint64_t first = 0, last = 0;
  auto operator<=>(const CountRange&) const = default;
};

enum class Op : std::uint8_t {
  kBytes,    ///< reads a byte along one of its edges, which are disjoint
  kSplit,    ///< goes to all of its targets
  kCall,     ///< pushes a return to `exit`, goes to `target`
  kReturn,   ///< pops a return; at the bottom of the stack the text may end
  kPush,     ///< pushes a frame of value 0 that it owns, goes to `target`
  kCount,    ///< adds 1 to the frame of `owner`: below `most` goes to `target`, from `least` on pops and goes
             ///< to `exit`, if there is one
  kWithin,   ///< goes to `target` if the frame of `owner` holds a value of one of its ranges
  kSetNext,  ///< frame of `owner`: to `target` if the kSetPick `picker` has an option left; pops and goes to
             ///< `exit`
             ///< if all of `least` are in
  kSetPick,  ///< goes to those targets whose bit is not in the frame, and to `target`, if any
  kSetAdd,   ///< adds the bits `least` to the frame of `owner`, goes to `target`
};

struct Node {
  Op op = Op::kReturn;
  /// kBytes: of edges; kSplit, kSetPick: of targets; kPush: of thresholds; kWithin: of ranges.
  std::uint32_t begin = 0, end = 0;
  NodeId target = kNoNode;
  NodeId exit = kNoNode;    ///< kPush of a set: its kSetNext, for heights alone
  NodeId owner = kNoNode;   ///< kCount, kWithin, kSetNext, kSetAdd: a kPush
  NodeId picker = kNoNode;  ///< kSetNext
  std::uint64_t least = 0;  ///< kPush of a counter: bounds. Sets: bits
  std::uint64_t most = 0;
};

/// The nodes in order of their making: targets come before what leads to them, loops apart.
struct Graph {
  std::vector<Node> nodes;
  std::vector<ByteEdge> edges;
  std::vector<NodeId> targets;
  std::vector<std::uint64_t> thresholds;
  std::vector<CountRange> ranges;  ///< each node has its own in order, disjoint

  [[nodiscard]] std::span<const ByteEdge> edges_of(const Node& node) const {
    return std::span(edges).subspan(node.begin, node.end - node.begin);
  }
  [[nodiscard]] std::span<const NodeId> targets_of(const Node& node) const {
    return std::span(targets).subspan(node.begin, node.end - node.begin);
  }
  /// Of a counter: the values, in order, from which on nodes do something else than just below. Of a set:
  /// none.
  [[nodiscard]] std::span<const std::uint64_t> thresholds_of(const Node& counter) const {
    return std::span(thresholds).subspan(counter.begin, counter.end - counter.begin);
  }
};

/// For every node how many more calls must nest, at least, on the way to the end of its rule; kUnreachable
/// where there is no way. Whoever only goes to nodes with depth + height <= limit always finds a way to the
/// end: proof in docs/grammar.md. Linear in the graph, times the nesting of its loops.
[[nodiscard]] std::vector<std::uint16_t> node_heights(const Graph& graph);

/// Whether some way leads from a node to itself without reading a byte: following it would not end.
[[nodiscard]] bool has_empty_cycle(const Graph& graph);

/// Makes graphs from the end to the beginning: every function takes what follows and returns where to begin.
class GraphBuilder {
 public:
  NodeId dead();  ///< reads nothing, ever
  NodeId end_of_rule();
  /// Edges must be disjoint; sorted here.
  NodeId bytes(std::vector<ByteEdge> edges);
  NodeId byte(std::uint8_t byte, NodeId next) { return bytes({{byte, byte, next}}); }
  NodeId split(std::vector<NodeId> targets);
  NodeId literal(std::string_view text, NodeId next);
  /// One of these texts (there may be equal ones), each with what follows it; a trie.
  NodeId literals(std::vector<std::pair<std::string_view, NodeId>> texts);
  NodeId call(NodeId rule, NodeId next);
  /// White space between tokens of JSON: nothing, one space, or a newline with indentation.
  NodeId space(NodeId next);

  /// A node whose successors are set later; for loops and rules that call themselves.
  NodeId later();
  void set_later(NodeId node, NodeId target);

  /// Counted repetition: begin at the counter, with its target set to the first round; each round ends at
  /// `count`.
  NodeId counter(std::uint64_t least, std::uint64_t most);
  /// `exit`: kNoNode where the repetition cannot end after this round.
  NodeId count(NodeId counter, NodeId again, NodeId exit);
  /// To `target`, if the counter holds a value of these ranges, which are in order.
  NodeId within(NodeId counter, std::span<const CountRange> ranges, NodeId target);
  /// Values at which `within` nodes of the counter change, besides its bounds.
  void add_thresholds(NodeId counter, std::vector<std::uint64_t> values);
  /// Sets: begin at `set`, which goes to the picker's prefix; each option ends at `set_add`.
  NodeId set();
  void set_begin(NodeId counter_or_set, NodeId target);
  NodeId set_next(NodeId set, NodeId prefix, NodeId picker, std::uint64_t required, NodeId exit);
  NodeId set_add(NodeId set, std::uint64_t bit, NodeId next);
  /// Option i has bit i. `free_option` (or kNoNode) may be taken any number of times.
  NodeId set_pick(NodeId set, const std::vector<NodeId>& options, NodeId free_option);
  void change_set_next(NodeId set_next, NodeId prefix, NodeId picker);

  /// What was built so far; rolled back to it, as if nothing had been built since.
  struct Mark {
    std::size_t nodes = 0, edges = 0, targets = 0, thresholds = 0, ranges = 0;
  };
  [[nodiscard]] Mark mark() const;
  void roll_back(const Mark& mark);
  /// Nodes that may be there from now on, at most kMaxNodes.
  void set_limit(std::size_t nodes) { limit_ = nodes; }

  /// More nodes than a request may have; from then on nothing is added and ids mean nothing.
  [[nodiscard]] bool overflowed() const { return overflowed_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] Graph take() { return std::move(graph_); }

 private:
  NodeId add(Node node);
  NodeId add_targets(Node node, const std::vector<NodeId>& targets);

  Graph graph_;
  std::size_t limit_ = kMaxNodes;
  bool overflowed_ = false;
};

/// Spaces after a newline.
inline constexpr std::uint64_t kMaxIndentation = 64;

}  // namespace baleen
