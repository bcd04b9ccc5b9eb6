/// Calls and replies as bytes, between processes of one program on machines of one byte order.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "rank_engine/rank_call.h"

namespace baleen {

/// Arrays that came with a message, which what was read of it points to.
class ReceivedArrays {
 public:
  template <class T>
  [[nodiscard]] std::span<const T> keep(std::vector<T> values) {
    auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const T> view = *kept;
    kept_.push_back(std::move(kept));
    return view;
  }

 private:
  std::vector<std::shared_ptr<const void>> kept_;
};

struct ReceivedCall {
  RankCall call;
  ReceivedArrays arrays;
};

struct ReceivedReply {
  RankReply reply;
  ReceivedArrays arrays;
};

[[nodiscard]] std::vector<std::byte> to_bytes(const RankCall& call);
[[nodiscard]] std::vector<std::byte> to_bytes(const RankReply& reply);
/// Throw `Error` for bytes that are no such message.
[[nodiscard]] ReceivedCall call_from_bytes(std::span<const std::byte> bytes);
[[nodiscard]] ReceivedReply reply_from_bytes(std::span<const std::byte> bytes);

}  // namespace baleen
