/// Nodes in order of use. The links lie in the nodes, so every operation is O(1) and allocates nothing.
#pragma once

#include "prefix_cache/radix_node.h"

namespace baleen {

template <LruLinks RadixNode::*kLinks>
class LruList {
 public:
  [[nodiscard]] RadixNode* oldest() const { return oldest_; }
  [[nodiscard]] RadixNode* newest() const { return newest_; }
  [[nodiscard]] static RadixNode* older(const RadixNode& node) { return (node.*kLinks).older; }
  [[nodiscard]] static RadixNode* newer(const RadixNode& node) { return (node.*kLinks).newer; }

  /// `node` is not in the list.
  void push_newest(RadixNode& node) {
    node.*kLinks = {.older = newest_, .newer = nullptr};
    (newest_ != nullptr ? (newest_->*kLinks).newer : oldest_) = &node;
    newest_ = &node;
  }

  /// `node` is in the list.
  void remove(RadixNode& node) {
    const auto [older, newer] = node.*kLinks;
    (older != nullptr ? (older->*kLinks).newer : oldest_) = newer;
    (newer != nullptr ? (newer->*kLinks).older : newest_) = older;
    node.*kLinks = {};
  }

 private:
  RadixNode* oldest_ = nullptr;
  RadixNode* newest_ = nullptr;
};

}  // namespace baleen
