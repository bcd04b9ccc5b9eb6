#include "prefix_cache/radix_node.h"

namespace baleen {

std::vector<TokenId> tokens_to(const RadixNode& node) {
  std::vector<const RadixNode*> path;
  for (const RadixNode* at = &node; !at->is_root(); at = at->parent) path.push_back(at);
  std::vector<TokenId> tokens;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    tokens.insert(tokens.end(), (*at)->tokens.begin(), (*at)->tokens.end());
  }
  return tokens;
}

}  // namespace baleen
