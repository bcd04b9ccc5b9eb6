#include "server/response_store.h"

#include <fmt/format.h>

#include <utility>

namespace baleen {
namespace {

/// An object that counts its bytes from its making to its end, whoever holds it last.
template <class Value>
std::shared_ptr<const Value> counted(Value value, std::size_t bytes,
                                     const std::shared_ptr<std::atomic<std::size_t>>& total) {
  *total += bytes;
  return {new Value(std::move(value)), [total, bytes](const Value* gone) {
            delete gone;
            *total -= bytes;
          }};
}

/// Values take more than their text: a name, a variant and a vector's slot for each.
constexpr std::size_t kBytesPerTextByte = 4;

/// "resp_8f3a" for "msg_8f3a_0": items are named after their response.
std::string response_of_item(std::string_view item_id) {
  const std::size_t first = item_id.find('_'), last = item_id.rfind('_');
  if (first == std::string_view::npos || first == last) return "";
  return fmt::format("resp_{}", item_id.substr(first + 1, last - first - 1));
}

const std::string* text_of(const PythonJson& object, std::string_view name) {
  const PythonJson* value = object.find(name);
  return value == nullptr ? nullptr : value->as_string();
}

}  // namespace

ResponseStore::ResponseStore(ResponseStoreOptions options)
    : options_(options), bytes_(std::make_shared<std::atomic<std::size_t>>(0)) {}

void ResponseStore::keep(std::string_view owner, const std::string& record, const ResponseKeeping& keeping) {
  if (!keeps()) return;
  const Result<PythonJson> response = parse_python_json(record);
  const std::string* id = response ? text_of(response.value(), "id") : nullptr;
  if (id == nullptr) return;
  PythonJson::Array turn = keeping.input;
  const PythonJson* output = response.value().find("output");
  if (output != nullptr && output->as_array() != nullptr) {
    turn.insert(turn.end(), output->as_array()->begin(), output->as_array()->end());
  }
  const std::size_t turn_bytes = kBytesPerTextByte * dump_python_json(PythonJson(turn)).size();
  if (record.size() + turn_bytes > options_.max_bytes) return;

  Entry entry{.id = *id, .owner = std::string(owner), .turns = keeping.turns};
  entry.record = counted(record, record.size(), bytes_);
  entry.turns.push_back(counted(std::move(turn), turn_bytes, bytes_));
  const std::lock_guard lock(mutex_);
  entries_.push_front(std::move(entry));
  by_id_[*id] = entries_.begin();
  while (entries_.size() > options_.max_responses || (*bytes_ > options_.max_bytes && !entries_.empty())) {
    drop_oldest();
  }
}

void ResponseStore::drop_oldest() {
  by_id_.erase(entries_.back().id);
  entries_.pop_back();
}

ResponseStore::Entry* ResponseStore::look_up(std::string_view owner, std::string_view id) {
  const auto found = by_id_.find(std::string(id));
  if (found == by_id_.end() || found->second->owner != owner) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &*found->second;
}

std::optional<std::string> ResponseStore::find(std::string_view owner, std::string_view id) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = look_up(owner, id);
  return entry == nullptr ? std::nullopt : std::optional(*entry->record);
}

bool ResponseStore::erase(std::string_view owner, std::string_view id) {
  const std::lock_guard lock(mutex_);
  if (look_up(owner, id) == nullptr) return false;
  entries_.pop_front();  // where `look_up` put it
  by_id_.erase(std::string(id));
  return true;
}

std::optional<std::vector<ConversationTurn>> ResponseStore::conversation(std::string_view owner,
                                                                         std::string_view id) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = look_up(owner, id);
  return entry == nullptr ? std::nullopt : std::optional(entry->turns);
}

std::optional<PythonJson> ResponseStore::item(std::string_view owner, std::string_view item_id) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = look_up(owner, response_of_item(item_id));
  if (entry == nullptr) return std::nullopt;
  for (const PythonJson& item : *entry->turns.back()) {
    const std::string* id = text_of(item, "id");
    if (id != nullptr && *id == item_id) return item;
  }
  return std::nullopt;
}

}  // namespace baleen
