/// Recent responses, so that a client may go on from one by its id (`previous_response_id`, `item_reference`)
/// or fetch it. In memory alone: a restart forgets them, and so do the bounds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocols/protocol.h"

namespace baleen {

struct ResponseStoreOptions {
  std::size_t max_responses = 1000;      ///< 0: none are kept
  std::size_t max_bytes = 256ULL << 20;  ///< limit of all that is kept, shared turns counted once
};

/// Thread-safe. Every response belongs to the API key of its request ("" where no keys are needed); to every
/// other key it does not exist. A conversation's turns are shared by the responses that continue it, so a
/// chain of n responses costs n turns. The least recently used response goes first.
class ResponseStore {
 public:
  explicit ResponseStore(ResponseStoreOptions options);

  [[nodiscard]] bool keeps() const { return options_.max_responses > 0; }
  /// `record`: the response as JSON, with its id and output. What does not fit alone is not kept.
  void keep(std::string_view owner, const std::string& record, const ResponseKeeping& keeping);
  /// The record; nothing when it is not kept or another's.
  [[nodiscard]] std::optional<std::string> find(std::string_view owner, std::string_view id);
  bool erase(std::string_view owner, std::string_view id);
  [[nodiscard]] std::optional<std::vector<ConversationTurn>> conversation(std::string_view owner,
                                                                          std::string_view id);
  [[nodiscard]] std::optional<PythonJson> item(std::string_view owner, std::string_view item_id);
  [[nodiscard]] std::size_t bytes() const { return *bytes_; }

 private:
  struct Entry {
    std::string id, owner;
    std::shared_ptr<const std::string> record;
    std::vector<ConversationTurn> turns;  ///< the last one is this response's own
  };

  Entry* look_up(std::string_view owner, std::string_view id);
  void drop_oldest();

  ResponseStoreOptions options_;
  /// What lives takes so many, turns that only later responses hold included.
  std::shared_ptr<std::atomic<std::size_t>> bytes_;
  std::mutex mutex_;          ///< guards the rest
  std::list<Entry> entries_;  ///< most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_id_;
};

/// The store as one client sees it.
class OwnResponses final : public EarlierResponses {
 public:
  OwnResponses(ResponseStore& store, std::string owner) : store_(store), owner_(std::move(owner)) {}
  [[nodiscard]] std::optional<std::vector<ConversationTurn>> conversation(
      std::string_view response_id) const override {
    return store_.conversation(owner_, response_id);
  }
  [[nodiscard]] std::optional<PythonJson> item(std::string_view item_id) const override {
    return store_.item(owner_, item_id);
  }

 private:
  ResponseStore& store_;
  std::string owner_;
};

}  // namespace baleen
