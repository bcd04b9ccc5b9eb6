#include "rank_engine/rank_message.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace baleen {
namespace {

/// Appends values as they lie in memory, arrays behind their lengths.
class Writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void value(const T& value) { raw(std::as_bytes(std::span(&value, 1))); }
  template <class T>
  void array(std::span<const T> values) {
    value(std::ssize(values));
    raw(std::as_bytes(values));
  }
  void rows(const ConstActivations<2>& rows) {
    value(rows.empty() ? std::int64_t{0} : rows.extent(1));
    array(
        std::span<const float>(rows.empty() ? nullptr : rows.data(), static_cast<std::size_t>(rows.size())));
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T value() {
    T result{};
    raw(std::as_writable_bytes(std::span(&result, 1)));
    return result;
  }
  template <class T>
  std::vector<T> array() {
    const auto count = value<std::ptrdiff_t>();
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size() / sizeof(T)) refuse();
    std::vector<T> values(static_cast<std::size_t>(count));
    raw(std::as_writable_bytes(std::span(values)));
    return values;
  }
  ConstActivations<2> rows(std::vector<float>& storage) {
    const auto width = value<std::int64_t>();
    storage = array<float>();
    if (storage.empty() || width <= 0) return {};
    return {storage.data(), {std::ssize(storage) / width, width}};
  }
  /// Of elements that have at least `min_bytes` each.
  std::int64_t count(std::size_t min_bytes = 1) {
    const auto count = value<std::int64_t>();
    if (count < 0 || static_cast<std::size_t>(count) > rest_.size() / min_bytes) refuse();
    return count;
  }

 private:
  void raw(std::span<std::byte> to) {
    if (to.size() > rest_.size()) refuse();
    if (!to.empty()) std::memcpy(to.data(), rest_.data(), to.size());
    rest_ = rest_.subspan(to.size());
  }
  [[noreturn]] static void refuse() { fail("a message between ranks is damaged: it ends too early"); }
  std::span<const std::byte> rest_;
};

}  // namespace

std::vector<std::byte> to_bytes(const RankCall& call) {
  Writer out;
  out.value(call.kind);
  out.value(call.group);
  out.value(call.sequence);
  out.value(call.number);
  out.value(call.keep);
  out.array(call.tokens);
  out.value(std::ssize(call.inputs));
  for (const std::vector<StepInput>& group : call.inputs) {
    out.value(std::ssize(group));
    for (const StepInput& input : group) {
      out.value(input.sequence);
      out.value(input.wanted);
      out.value(input.wants_mtp_logits);
      out.value(input.num_drafts);
      out.array(input.tokens);
      out.array(input.draws);
    }
  }
  out.value(std::ssize(call.drafts));
  for (const std::vector<DraftInput>& group : call.drafts) {
    out.value(std::ssize(group));
    for (const DraftInput& input : group) {
      out.value(input.sequence);
      out.value(input.token);
      out.value(input.draw.has_value());
      if (input.draw) out.value(*input.draw);
    }
  }
  out.value(std::ssize(call.experts));
  for (const BlockExperts& one : call.experts) {
    out.value(one.block);
    out.array(std::span<const std::int32_t>(one.slots));
  }
  return out.take();
}

ReceivedCall call_from_bytes(std::span<const std::byte> bytes) {
  Reader in(bytes);
  ReceivedCall received;
  RankCall& call = received.call;
  const auto tokens = [&] {
    return std::span<const TokenId>(received.tokens.emplace_back(in.array<TokenId>()));
  };
  call.kind = in.value<RankCall::Kind>();
  call.group = in.value<std::int64_t>();
  call.sequence = in.value<SequenceId>();
  call.number = in.value<std::int64_t>();
  call.keep = in.value<bool>();
  call.tokens = tokens();
  call.inputs.resize(static_cast<std::size_t>(in.count()));
  for (std::vector<StepInput>& group : call.inputs) {
    group.resize(static_cast<std::size_t>(in.count()));
    for (StepInput& input : group) {
      input.sequence = in.value<SequenceId>();
      input.wanted = in.value<WantedLogits>();
      input.wants_mtp_logits = in.value<bool>();
      input.num_drafts = in.value<std::int64_t>();
      input.tokens = tokens();
      input.draws = received.draws.emplace_back(in.array<SampleRow>());
    }
  }
  call.drafts.resize(static_cast<std::size_t>(in.count()));
  for (std::vector<DraftInput>& group : call.drafts) {
    group.resize(static_cast<std::size_t>(in.count()));
    for (DraftInput& input : group) {
      input.sequence = in.value<SequenceId>();
      input.token = in.value<TokenId>();
      if (in.value<bool>()) input.draw = in.value<SampleRow>();
    }
  }
  call.experts.resize(static_cast<std::size_t>(in.count()));
  for (BlockExperts& one : call.experts) {
    one.block = in.value<std::int64_t>();
    one.slots = in.array<std::int32_t>();
  }
  return received;
}

std::vector<std::byte> to_bytes(const RankReply& reply) {
  Writer out;
  out.value(reply.number);
  out.value(reply.failure.has_value());
  if (reply.failure) out.array(std::span<const char>(*reply.failure));
  out.rows(reply.logits);
  out.rows(reply.mtp_logits);
  out.array(reply.chosen);
  out.array(reply.drafted);
  out.value(reply.cache_use);
  out.array(std::span<const RadixNodeSummary>(reply.tree));
  out.value(std::ssize(reply.expert_load));
  for (const std::vector<std::int64_t>& row : reply.expert_load)
    out.array(std::span<const std::int64_t>(row));
  return out.take();
}

ReceivedReply reply_from_bytes(std::span<const std::byte> bytes) {
  Reader in(bytes);
  ReceivedReply received;
  RankReply& reply = received.reply;
  reply.number = in.value<std::int64_t>();
  if (in.value<bool>()) {
    const std::vector<char> text = in.array<char>();
    reply.failure = std::string(text.begin(), text.end());
  }
  reply.logits = in.rows(received.logits);
  reply.mtp_logits = in.rows(received.mtp_logits);
  reply.chosen = received.chosen = in.array<TokenId>();
  reply.drafted = received.drafted = in.array<TokenId>();
  reply.cache_use = in.value<CacheUse>();
  reply.tree = in.array<RadixNodeSummary>();
  reply.expert_load.resize(static_cast<std::size_t>(in.count()));
  for (std::vector<std::int64_t>& row : reply.expert_load) row = in.array<std::int64_t>();
  return received;
}

}  // namespace baleen
