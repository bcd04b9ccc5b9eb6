/// Splits of the vocabulary, kept once computed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace baleen {

struct TokenSplit;

/// From a description of a reading (token_split.h) to its split. May be used from any number of threads; a
/// split that two of them miss at once is computed twice. Over its budget of memory it forgets everything:
/// what is needed comes back at the cost of computing it anew.
class SplitCache {
 public:
  static constexpr std::size_t kBudgetBytes = std::size_t{64} << 20;

  [[nodiscard]] std::shared_ptr<const TokenSplit> find(std::string_view key) const;
  void insert(std::string_view key, std::shared_ptr<const TokenSplit> split, std::size_t size_bytes);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const TokenSplit>, Hash, std::equal_to<>> splits_;
  std::size_t used_bytes_ = 0;
};

}  // namespace baleen
