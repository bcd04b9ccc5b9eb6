#include "app/command_description.h"

#include <algorithm>

namespace baleen {

std::vector<std::string> OptionDescription::choices() const {
  std::vector<std::string> found;
  if (value.find('|') == std::string::npos) return found;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find('|', begin), value.size());
    found.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

}  // namespace baleen
