#include "chat/call_memory.h"

#include <algorithm>
#include <utility>

#include "chat/python_json.h"

namespace baleen {
namespace {

PythonJson with_sorted_keys(const PythonJson& value) {
  if (const PythonJson::Array* array = value.as_array()) {
    PythonJson::Array sorted;
    sorted.reserve(array->size());
    for (const PythonJson& element : *array) sorted.push_back(with_sorted_keys(element));
    return sorted;
  }
  if (const PythonJson::Object* object = value.as_object()) {
    PythonJson::Object sorted;
    sorted.reserve(object->size());
    for (const PythonJson::Member& member : *object) {
      sorted.push_back({member.name, with_sorted_keys(member.value)});
    }
    std::ranges::sort(sorted, {}, &PythonJson::Member::name);
    return sorted;
  }
  return value;
}

std::vector<std::string> ids_of(std::span<const ToolCall> calls) {
  std::vector<std::string> ids;
  ids.reserve(calls.size());
  for (const ToolCall& call : calls) ids.push_back(call.id);
  return ids;
}

std::string key_of(const std::string& form, const std::vector<std::string>& ids) {
  PythonJson::Array list(ids.begin(), ids.end());
  return form + dump_python_json(PythonJson(std::move(list)));
}

bool contradict(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].empty() && !b[i].empty() && a[i] != b[i]) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> canonical_calls(std::span<const ToolCall> calls) {
  PythonJson::Array forms;
  for (const ToolCall& call : calls) {
    const Result<PythonJson> arguments = parse_python_json(call.arguments);
    if (!arguments || arguments.value().as_object() == nullptr) return std::nullopt;
    forms.emplace_back(PythonJson::Array{call.name, with_sorted_keys(arguments.value())});
  }
  return dump_python_json(PythonJson(std::move(forms)));
}

std::size_t CallMemory::Entry::num_bytes() const {
  static constexpr std::size_t kNodes = 256;  // of the list and both maps, and the strings' own
  std::size_t size = kNodes + form.size() + key.size() + raw.size();
  for (const std::string& id : ids) size += sizeof id + id.size();
  return size;
}

void CallMemory::remember(std::span<const ToolCall> calls, std::string_view raw) {
  std::optional<std::string> form = calls.empty() || raw.empty() ? std::nullopt : canonical_calls(calls);
  if (!form) return;
  std::vector<std::string> ids = ids_of(calls);
  std::string key = key_of(*form, ids);
  Entry entry{*std::move(form), std::move(key), std::move(ids), std::string(raw)};
  const std::size_t size = entry.num_bytes();
  if (size > limits_.max_bytes || limits_.max_entries == 0) return;

  const std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(entry.key); known != by_key_.end()) forget(known->second);
  while (!entries_.empty() &&
         (entries_.size() >= limits_.max_entries || num_bytes_ + size > limits_.max_bytes)) {
    forget(std::prev(entries_.end()));
  }
  entries_.push_front(std::move(entry));
  const Place place = entries_.begin();
  by_key_.emplace(place->key, place);
  by_form_.erase(place->form);  // also for the key, which must point into the new entry
  by_form_.emplace(place->form, place);
  num_bytes_ += size;
}

std::optional<std::string> CallMemory::recall(std::span<const ToolCall> calls) {
  const std::optional<std::string> form = calls.empty() ? std::nullopt : canonical_calls(calls);
  if (!form) return std::nullopt;
  const std::vector<std::string> ids = ids_of(calls);
  const std::string key = key_of(*form, ids);

  const std::lock_guard lock(mutex_);
  Place place = entries_.end();
  if (const auto exact = by_key_.find(key); exact != by_key_.end()) {
    place = exact->second;
  } else if (const auto latest = by_form_.find(*form);
             latest != by_form_.end() && !contradict(latest->second->ids, ids)) {
    place = latest->second;
  }
  if (place == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, place);
  return place->raw;
}

std::size_t CallMemory::num_entries() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t CallMemory::num_bytes() const {
  const std::lock_guard lock(mutex_);
  return num_bytes_;
}

void CallMemory::forget(Place place) {
  num_bytes_ -= place->num_bytes();
  by_key_.erase(place->key);
  if (const auto latest = by_form_.find(place->form); latest != by_form_.end() && latest->second == place) {
    by_form_.erase(latest);
  }
  entries_.erase(place);
}

}  // namespace baleen
