#include <algorithm>

#include "grammar/graph.h"

namespace baleen {
namespace {

/// Where a node may go without reading a byte, the end of a rule apart. No rule is empty, so a call never
/// gets to its exit without reading.
std::vector<NodeId> empty_ways(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::kBytes:
    case Op::kReturn:
      return {};
    case Op::kSplit: {
      const auto targets = graph.targets_of(node);
      return {targets.begin(), targets.end()};
    }
    case Op::kCall:
    case Op::kPush:
    case Op::kSetAdd:
    case Op::kWithin:
      return {node.target};
    case Op::kCount:
      if (node.exit == kNoNode) return {node.target};
      return {node.target, node.exit};
    case Op::kSetNext:
      return {node.target, node.exit};
    case Op::kSetPick: {
      const auto targets = graph.targets_of(node);
      std::vector<NodeId> ways(targets.begin(), targets.end());
      if (node.target != kNoNode) ways.push_back(node.target);
      return ways;
    }
  }
  return {};
}

std::uint16_t height_of(const Graph& graph, const Node& node, const std::vector<std::uint16_t>& heights) {
  std::uint16_t lowest = kUnreachable;
  switch (node.op) {
    case Op::kReturn:
      return 0;
    case Op::kBytes:
      for (const ByteEdge& edge : graph.edges_of(node)) lowest = std::min(lowest, heights[edge.target]);
      return lowest;
    case Op::kSplit:
      for (const NodeId target : graph.targets_of(node)) lowest = std::min(lowest, heights[target]);
      return lowest;
    case Op::kCall: {
      const std::uint16_t inside = heights[node.target];
      const auto called =
          static_cast<std::uint16_t>(std::min<std::uint32_t>(std::uint32_t{inside} + 1, kUnreachable));
      return std::max(called, heights[node.exit]);
    }
    case Op::kPush:
      return node.exit == kNoNode ? heights[node.target] : std::max(heights[node.target], heights[node.exit]);
    case Op::kSetAdd:
      return 0;  // what follows in the set was accounted for by its kPush, at the same depth
    case Op::kWithin:
      return heights[node.target];
    case Op::kCount:
      // Another round begins at the depth at which the first began, and needs no more than that one did.
      return heights[node.exit == kNoNode ? node.target : node.exit];
    case Op::kSetNext: {
      std::uint16_t highest = heights[node.exit];
      const auto options = graph.targets_of(graph.nodes[node.picker]);
      for (std::size_t i = 0; i < options.size(); ++i) {
        if ((node.least >> i & 1) != 0) highest = std::max(highest, heights[options[i]]);
      }
      return highest;
    }
    case Op::kSetPick:
      for (const NodeId target : graph.targets_of(node)) lowest = std::min(lowest, heights[target]);
      return node.target == kNoNode ? lowest : std::min(lowest, heights[node.target]);
  }
  return kUnreachable;
}

}  // namespace

std::vector<std::uint16_t> node_heights(const Graph& graph) {
  std::vector<std::uint16_t> heights(graph.nodes.size(), kUnreachable);
  bool changed = true;
  while (changed) {  // heights only fall, and most targets come first: few rounds
    changed = false;
    for (std::size_t i = 0; i < heights.size(); ++i) {
      const std::uint16_t height = height_of(graph, graph.nodes[i], heights);
      changed |= height != heights[i];
      heights[i] = height;
    }
  }
  return heights;
}

bool has_empty_cycle(const Graph& graph) {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  struct Visit {
    NodeId node;
    std::vector<NodeId> ways;
  };
  std::vector<Mark> marks(graph.nodes.size(), Mark::kNew);
  std::vector<Visit> path;
  const auto open = [&](NodeId node) {
    marks[node] = Mark::kOpen;
    path.push_back({node, empty_ways(graph, graph.nodes[node])});
  };
  for (NodeId root = 0; root < graph.nodes.size(); ++root) {
    if (marks[root] == Mark::kNew) open(root);
    while (!path.empty()) {
      if (path.back().ways.empty()) {
        marks[path.back().node] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const NodeId next = path.back().ways.back();
      path.back().ways.pop_back();
      if (marks[next] == Mark::kOpen) return true;
      if (marks[next] == Mark::kNew) open(next);
    }
  }
  return false;
}

}  // namespace baleen
