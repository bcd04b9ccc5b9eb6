#include "rank_engine/rank_message.h"

#include <array>
#include <tuple>
#include <utility>

#include "base/message_bytes.h"

namespace baleen {
namespace {

/// The fields of the engine's own types, as `fields` of calls and replies: one list for writing and reading.
auto fields_of(auto& self) {
  using Self = std::remove_cvref_t<decltype(self)>;
  if constexpr (std::is_same_v<Self, StepInput>) {
    return std::tie(self.sequence, self.wanted, self.wants_draft_logits, self.num_drafts, self.tokens,
                    self.draws);
  } else if constexpr (std::is_same_v<Self, DraftInput>) {
    return std::tie(self.sequence, self.token, self.draw);
  } else if constexpr (std::is_same_v<Self, BlockExperts>) {
    return std::tie(self.block, self.slots);
  } else if constexpr (std::is_same_v<Self, PrefixLookup>) {
    return std::tie(self.end, self.prompt_tokens, self.found_tokens, self.first_difference, self.lost_tokens,
                    self.cached_tokens);
  } else {
    return Self::fields(self);
  }
}

/// What goes over as it lies in memory: numbers, and values of numbers alone.
template <class T>
constexpr bool kGoesAsItLies = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, SampleRow> ||
                               std::is_same_v<T, CacheUse> || std::is_same_v<T, RadixNodeSummary> ||
                               std::is_same_v<T, SequenceTransfer> || std::is_same_v<T, ExpertPlaceStats>;

class Writer {
 public:
  template <class T>
  void operator()(const T& value) {
    if constexpr (kGoesAsItLies<T>) {
      out_.value(value);
    } else {
      std::apply([&](const auto&... fields) { ((*this)(fields), ...); }, fields_of(value));
    }
  }
  void operator()(const std::string& text) { out_.text(text); }
  template <class T>
  void operator()(const std::span<const T>& values) {
    out_.array(values);
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    out_.value(std::ssize(values));
    for (const T& value : values) (*this)(value);
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    out_.value(value.has_value());
    if (value) (*this)(*value);
  }
  template <class... Ts>
  void operator()(const std::variant<Ts...>& value) {
    out_.value(value.index());
    std::visit([&](auto& one) { (*this)(one); }, value);
  }
  void operator()(const ConstActivations<2>& rows) {
    out_.value(rows.empty() ? std::int64_t{0} : rows.extent(1));
    out_.array(
        std::span<const float>(rows.empty() ? nullptr : rows.data(), static_cast<std::size_t>(rows.size())));
  }
  [[nodiscard]] std::vector<std::byte> take() { return out_.take(); }

 private:
  MessageWriter out_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, ReceivedArrays& arrays) : in_(bytes), arrays_(arrays) {}

  template <class T>
  void operator()(T& value) {
    if constexpr (kGoesAsItLies<T>) {
      value = in_.value<T>();
    } else {
      std::apply([&](auto&... fields) { ((*this)(fields), ...); }, fields_of(value));
    }
  }
  void operator()(std::string& text) { text = in_.text(); }
  template <class T>
  void operator()(std::span<const T>& values) {
    values = arrays_.keep(in_.array<T>());
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.resize(static_cast<std::size_t>(in_.count()));
    for (T& value : values) (*this)(value);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    if (in_.value<bool>()) (*this)(value.emplace());
  }
  template <class... Ts>
  void operator()(std::variant<Ts...>& value) {
    const auto index = in_.value<std::size_t>();
    if (index >= sizeof...(Ts)) fail("a message between ranks is damaged: it is of no known kind");
    static constexpr std::array<void (*)(std::variant<Ts...>&), sizeof...(Ts)> kEmplace{
        [](std::variant<Ts...>& any) { any.template emplace<Ts>(); }...};
    kEmplace[index](value);
    std::visit([&](auto& one) { (*this)(one); }, value);
  }
  void operator()(ConstActivations<2>& rows) {
    const auto width = in_.value<std::int64_t>();
    const std::span<const float> values = arrays_.keep(in_.array<float>());
    rows = values.empty() || width <= 0
               ? ConstActivations<2>()
               : ConstActivations<2>(values.data(), {std::ssize(values) / width, width});
  }

 private:
  MessageReader in_;
  ReceivedArrays& arrays_;
};

template <class T>
std::vector<std::byte> bytes_of(const T& message) {
  Writer out;
  out(message);
  return out.take();
}

}  // namespace

std::vector<std::byte> to_bytes(const RankCall& call) { return bytes_of(call); }
std::vector<std::byte> to_bytes(const RankReply& reply) { return bytes_of(reply); }

ReceivedCall call_from_bytes(std::span<const std::byte> bytes) {
  ReceivedCall received;
  Reader(bytes, received.arrays)(received.call);
  return received;
}

ReceivedReply reply_from_bytes(std::span<const std::byte> bytes) {
  ReceivedReply received;
  Reader(bytes, received.arrays)(received.reply);
  return received;
}

}  // namespace baleen
