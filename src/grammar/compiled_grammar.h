/// A grammar ready to be followed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/builtin_rules.h"
#include "grammar/grammar.h"
#include "grammar/graph.h"
#include "grammar/split_cache.h"

namespace baleen {

class CompiledGrammar {
 public:
  CompiledGrammar(Graph graph, std::vector<std::uint16_t> heights, NodeId begin, NodeId first_own)
      : graph_(std::move(graph)), heights_(std::move(heights)), begin_(begin), first_own_(first_own) {}

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[id]; }
  [[nodiscard]] int height(NodeId id) const { return heights_[id]; }
  [[nodiscard]] NodeId begin() const { return begin_; }
  /// Whether a node is one of the rules that all grammars share.
  [[nodiscard]] bool is_builtin(NodeId id) const { return id < first_own_; }
  [[nodiscard]] SplitCache& splits() const { return splits_; }

 private:
  Graph graph_;
  std::vector<std::uint16_t> heights_;
  NodeId begin_, first_own_;
  mutable SplitCache splits_;  ///< locks by itself
};

/// Checks what was built and seals it. `what` names the source in sentences. Fails when the grammar is too
/// large, allows no finite text or loops without reading.
[[nodiscard]] Result<Grammar> finish_grammar(GraphBuilder& builder, NodeId begin, const BuiltinRules& rules,
                                             std::string_view what);

/// For a schema of which nothing can be held.
[[nodiscard]] Grammar any_json_grammar();

}  // namespace baleen
