#include <algorithm>

#include "base/check.h"
#include "base/work_budget.h"
#include "grammar/graph.h"

namespace baleen {
namespace {

/// Of making a node and of checking it afterwards.
constexpr std::int64_t kWorkPerNode = 50;

}  // namespace

NodeId GraphBuilder::add(Node node) {
  if (graph_.nodes.size() >= limit_) {
    overflowed_ = true;
    return 0;
  }
  spend_work(kWorkPerNode);
  graph_.nodes.push_back(node);
  return static_cast<NodeId>(graph_.nodes.size() - 1);
}

NodeId GraphBuilder::add_targets(Node node, const std::vector<NodeId>& targets) {
  if (overflowed_) return 0;
  node.begin = static_cast<std::uint32_t>(graph_.targets.size());
  graph_.targets.insert(graph_.targets.end(), targets.begin(), targets.end());
  node.end = static_cast<std::uint32_t>(graph_.targets.size());
  return add(node);
}

GraphBuilder::Mark GraphBuilder::mark() const {
  return {graph_.nodes.size(), graph_.edges.size(), graph_.targets.size(), graph_.thresholds.size(),
          graph_.ranges.size()};
}

void GraphBuilder::roll_back(const Mark& mark) {
  graph_.nodes.resize(mark.nodes);
  graph_.edges.resize(mark.edges);
  graph_.targets.resize(mark.targets);
  graph_.thresholds.resize(mark.thresholds);
  graph_.ranges.resize(mark.ranges);
  overflowed_ = false;
}

NodeId GraphBuilder::dead() { return bytes({}); }

NodeId GraphBuilder::end_of_rule() { return add({.op = Op::kReturn}); }

NodeId GraphBuilder::bytes(std::vector<ByteEdge> edges) {
  if (overflowed_) return 0;
  std::ranges::sort(edges, {}, &ByteEdge::first);
  Node node{.op = Op::kBytes, .begin = static_cast<std::uint32_t>(graph_.edges.size())};
  graph_.edges.insert(graph_.edges.end(), edges.begin(), edges.end());
  node.end = static_cast<std::uint32_t>(graph_.edges.size());
  return add(node);
}

NodeId GraphBuilder::split(std::vector<NodeId> targets) {
  std::ranges::sort(targets);
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets.size() == 1 ? targets[0] : add_targets({.op = Op::kSplit}, targets);
}

NodeId GraphBuilder::literal(std::string_view text, NodeId next) {
  for (std::size_t i = text.size(); i > 0 && !overflowed_; --i)
    next = byte(static_cast<std::uint8_t>(text[i - 1]), next);
  return next;
}

NodeId GraphBuilder::literals(std::vector<std::pair<std::string_view, NodeId>> texts) {
  struct Branch {
    std::vector<std::pair<std::uint8_t, std::size_t>>
        children;  // in order of their bytes, as texts are sorted
    std::vector<NodeId> ends;
  };
  std::ranges::sort(texts);
  std::vector<Branch> trie(1);
  for (const auto& [text, next] : texts) {
    std::size_t at = 0;
    for (const char c : text) {
      const auto byte = static_cast<std::uint8_t>(c);
      if (trie[at].children.empty() || trie[at].children.back().first != byte) {
        trie[at].children.emplace_back(byte, trie.size());
        trie.emplace_back();
      }
      at = trie[at].children.back().second;
    }
    trie[at].ends.push_back(next);
    if (trie.size() > kMaxNodes) {
      overflowed_ = true;
      return 0;
    }
  }
  std::vector<NodeId> nodes(trie.size());
  for (std::size_t i = trie.size(); i-- > 0;) {  // children have higher indices
    std::vector<NodeId> ways = trie[i].ends;
    std::vector<ByteEdge> edges;
    for (const auto& [byte, child] : trie[i].children) edges.push_back({byte, byte, nodes[child]});
    if (!edges.empty() || ways.empty()) ways.push_back(bytes(std::move(edges)));
    nodes[i] = split(std::move(ways));
  }
  return nodes[0];
}

NodeId GraphBuilder::call(NodeId rule, NodeId next) {
  return add({.op = Op::kCall, .target = rule, .exit = next});
}

NodeId GraphBuilder::space(NodeId next) {
  const NodeId indentation = counter(1, kMaxIndentation);
  const NodeId round = later();
  const NodeId one = byte(' ', count(indentation, round, next));
  set_later(round, one);
  set_begin(indentation, one);
  return split({next, bytes({{' ', ' ', next}, {'\n', '\n', split({next, indentation})}})});
}

NodeId GraphBuilder::later() { return add_targets({.op = Op::kSplit}, {kNoNode}); }

void GraphBuilder::set_later(NodeId node, NodeId target) {
  if (overflowed_) return;
  BALEEN_CHECK(graph_.nodes[node].op == Op::kSplit);
  graph_.targets[graph_.nodes[node].begin] = target;
}

NodeId GraphBuilder::counter(std::uint64_t least, std::uint64_t most) {
  const NodeId counter = add({.op = Op::kPush, .least = least, .most = most});
  add_thresholds(counter, {});
  return counter;
}

void GraphBuilder::add_thresholds(NodeId counter, std::vector<std::uint64_t> values) {
  if (overflowed_) return;
  Node& node = graph_.nodes[counter];
  values.insert(values.end(), {node.least, node.most});
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  spend_work(std::ssize(values));
  node.begin = static_cast<std::uint32_t>(graph_.thresholds.size());
  graph_.thresholds.insert(graph_.thresholds.end(), values.begin(), values.end());
  node.end = static_cast<std::uint32_t>(graph_.thresholds.size());
}

NodeId GraphBuilder::within(NodeId counter, std::span<const CountRange> ranges, NodeId target) {
  if (overflowed_) return 0;
  spend_work(std::ssize(ranges));
  Node node{.op = Op::kWithin, .target = target, .owner = counter};
  node.begin = static_cast<std::uint32_t>(graph_.ranges.size());
  graph_.ranges.insert(graph_.ranges.end(), ranges.begin(), ranges.end());
  node.end = static_cast<std::uint32_t>(graph_.ranges.size());
  return add(node);
}

NodeId GraphBuilder::count(NodeId counter, NodeId again, NodeId exit) {
  if (overflowed_) return 0;
  const Node& bounds = graph_.nodes[counter];
  return add({.op = Op::kCount,
              .target = again,
              .exit = exit,
              .owner = counter,
              .least = bounds.least,
              .most = bounds.most});
}

NodeId GraphBuilder::set() { return add({.op = Op::kPush}); }

void GraphBuilder::set_begin(NodeId counter_or_set, NodeId target) {
  if (!overflowed_) graph_.nodes[counter_or_set].target = target;
}

NodeId GraphBuilder::set_next(NodeId set, NodeId prefix, NodeId picker, std::uint64_t required, NodeId exit) {
  return add({.op = Op::kSetNext,
              .target = prefix,
              .exit = exit,
              .owner = set,
              .picker = picker,
              .least = required});
}

void GraphBuilder::change_set_next(NodeId set_next, NodeId prefix, NodeId picker) {
  if (overflowed_) return;
  graph_.nodes[graph_.nodes[set_next].owner].exit = set_next;
  graph_.nodes[set_next].target = prefix;
  graph_.nodes[set_next].picker = picker;
}

NodeId GraphBuilder::set_add(NodeId set, std::uint64_t bit, NodeId next) {
  return add({.op = Op::kSetAdd, .target = next, .owner = set, .least = bit});
}

NodeId GraphBuilder::set_pick(NodeId set, const std::vector<NodeId>& options, NodeId free_option) {
  return add_targets({.op = Op::kSetPick, .target = free_option, .owner = set}, options);
}

}  // namespace baleen
