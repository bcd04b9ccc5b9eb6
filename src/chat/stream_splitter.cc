#include "chat/stream_splitter.h"

#include <algorithm>
#include <span>

#include "base/utf8.h"
#include "chat/format.h"

namespace baleen {
namespace {

using namespace chat_format;
using Kind = StreamSplitter::Kind;

/// The strings that end text of that kind.
std::span<const std::string_view> stops_of(Kind kind) {
  static constexpr std::string_view kAfterReasoning[] = {kEndThink, kEos};
  static constexpr std::string_view kAfterContent[] = {kCallStart, kEos};
  switch (kind) {
    case Kind::kReasoning:
      return kAfterReasoning;
    case Kind::kContent:
      return kAfterContent;
    case Kind::kToolCalls:
      break;
  }
  return {};
}

struct Stop {
  std::size_t at = std::string_view::npos;
  std::string_view text;
};

Stop first_stop(std::string_view text, Kind kind) {
  Stop first;
  for (const std::string_view stop : stops_of(kind)) {
    const std::size_t at = text.find(stop);
    if (at < first.at) first = {at, stop};
  }
  return first;
}

/// Bytes at the end of `text` that may be the start of a stop, or of a character.
std::size_t uncertain_bytes(std::string_view text, Kind kind) {
  std::size_t most = unfinished_utf8(text);
  for (const std::string_view stop : stops_of(kind)) {
    for (std::size_t size = std::min(stop.size() - 1, text.size()); size > most; --size) {
      if (text.ends_with(stop.substr(0, size))) most = size;
    }
  }
  return most;
}

}  // namespace

std::vector<StreamSplitter::Delta> StreamSplitter::feed(std::string_view piece) {
  std::vector<Delta> deltas;
  const auto give = [&deltas](Kind kind, std::string_view text) {
    if (!text.empty()) deltas.push_back({kind, std::string(text)});
  };
  if (ended_) return deltas;
  pending_ += piece;
  std::string_view rest = pending_;
  for (Stop stop = first_stop(rest, kind_); !stop.text.empty(); stop = first_stop(rest, kind_)) {
    give(kind_, rest.substr(0, stop.at));
    rest.remove_prefix(stop.at);
    if (stop.text == kCallStart) {
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
  const std::size_t uncertain = uncertain_bytes(rest, kind_);
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
