#include "parallel/memory_nodes.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"

namespace baleen {
namespace {

/// A whole number that is all of `word`; -1 for anything else.
int number_of(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() && value >= 0 ? value : -1;
}

/// "0-3,8" to 0 1 2 3 8, of those in `allowed`; words that are no range count for nothing.
std::vector<int> processors_of(std::string_view list, const cpu_set_t& allowed) {
  std::vector<int> processors;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view range = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const std::size_t dash = range.find('-');
    const int first = number_of(range.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
    if (first < 0) continue;
    for (int processor = first; processor <= std::min(last, CPU_SETSIZE - 1); ++processor) {
      if (CPU_ISSET(processor, &allowed)) processors.push_back(processor);
    }
  }
  return processors;
}

}  // namespace

std::vector<std::vector<int>> memory_nodes(const std::filesystem::path& folder) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  std::map<int, std::vector<int>> by_number;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    const int number = number_of(std::string_view(name).substr(4));
    if (number < 0) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    if (!std::getline(file, list)) continue;
    std::vector<int> processors = processors_of(list, allowed);
    if (!processors.empty()) by_number.emplace(number, std::move(processors));
  }
  std::vector<std::vector<int>> nodes;
  for (auto& [number, processors] : by_number) nodes.push_back(std::move(processors));
  return nodes;
}

void stay_on_nodes(const std::vector<std::vector<int>>& nodes, std::int64_t part, std::int64_t num_parts) {
  BALEEN_CHECK_LE(0, part);
  BALEEN_CHECK_LT(part, num_parts);
  const auto num_nodes = static_cast<std::int64_t>(nodes.size());
  if (num_nodes < 2) return;
  const std::int64_t first = part * num_nodes / num_parts;
  const std::int64_t end = std::max(first + 1, (part + 1) * num_nodes / num_parts);
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (std::int64_t node = first; node < end; ++node) {
    for (const int processor : nodes[static_cast<std::size_t>(node)]) CPU_SET(processor, &wanted);
  }
  static_cast<void>(::sched_setaffinity(0, sizeof(wanted), &wanted));
}

}  // namespace baleen
