#include "chat/stream_splitter.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/format.h"

namespace baleen {

using namespace chat_format;

/// The strings that end text of the kind that comes.
std::vector<std::string_view> StreamSplitter::stops() const {
  switch (kind_) {
    case Kind::kReasoning:
      return {kEndThink, kEos};
    case Kind::kContent:
      return {call_start_, kEos};
    case Kind::kToolCalls:
      break;
  }
  return {};
}

StreamSplitter::Stop StreamSplitter::first_stop(std::string_view text) const {
  Stop first;
  for (const std::string_view stop : stops()) {
    const std::size_t at = text.find(stop);
    if (at < first.at) first = {at, stop};
  }
  return first;
}

/// Bytes at the end of `text` that may be the start of a stop, or of a character.
std::size_t StreamSplitter::uncertain_bytes(std::string_view text) const {
  std::size_t most = unfinished_utf8(text);
  for (const std::string_view stop : stops()) {
    for (std::size_t size = std::min(stop.size() - 1, text.size()); size > most; --size) {
      if (text.ends_with(stop.substr(0, size))) most = size;
    }
  }
  return most;
}

std::vector<StreamSplitter::Delta> StreamSplitter::feed(std::string_view piece) {
  std::vector<Delta> deltas;
  const auto give = [&deltas](Kind kind, std::string_view text) {
    if (!text.empty()) deltas.push_back({kind, std::string(text)});
  };
  if (ended_) return deltas;
  pending_ += piece;
  std::string_view rest = pending_;
  for (Stop stop = first_stop(rest); !stop.text.empty(); stop = first_stop(rest)) {
    give(kind_, rest.substr(0, stop.at));
    rest.remove_prefix(stop.at);
    if (stop.text == call_start_) {
      kind_ = Kind::kToolCalls;  // which keeps its opening tag
      continue;
    }
    rest.remove_prefix(stop.text.size());
    if (stop.text == kEos) {
      ended_ = true;
      pending_.clear();
      return deltas;
    }
    kind_ = Kind::kContent;
  }
  const std::size_t uncertain = uncertain_bytes(rest);
  give(kind_, rest.substr(0, rest.size() - uncertain));
  pending_.erase(0, pending_.size() - uncertain);
  return deltas;
}

std::vector<StreamSplitter::Delta> StreamSplitter::finish() {
  std::vector<Delta> deltas;
  if (!pending_.empty()) deltas.push_back({kind_, std::move(pending_)});
  pending_.clear();
  return deltas;
}

}  // namespace baleen
