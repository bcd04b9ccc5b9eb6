#include "server/api_keys.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace baleen {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 1 << 20;
constexpr std::string_view kBearer = "bearer ";

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  // Every byte of the longer one is visited; volatile keeps the compiler from leaving early.
  volatile unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const unsigned from_a = i < a.size() ? static_cast<unsigned char>(a[i]) : 0;
    const unsigned from_b = i < b.size() ? static_cast<unsigned char>(b[i]) : 0;
    difference = difference | (from_a ^ from_b);
  }
  return difference == 0;
}

}  // namespace

ApiKeys::ApiKeys(const std::filesystem::path& file) {
  std::istringstream lines(read_text_file(file, kMaxKeyFileBytes));
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    if (!line.empty() && line.front() != '#') keys_.push_back(line);
  }
  if (keys_.empty()) fail("{}: no key in it; one a line is expected", file.string());
}

bool ApiKeys::admits(std::string_view candidate) const {
  if (!required()) return true;
  bool admitted = false;
  for (const std::string& key : keys_) admitted |= equal_in_constant_time(key, candidate);
  return admitted;
}

std::string_view presented_key(std::string_view authorization, std::string_view x_api_key) {
  const auto same_letter = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (authorization.size() > kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                 [&](char wanted, char found) { return same_letter(found, wanted); })) {
    return authorization.substr(kBearer.size());
  }
  return x_api_key;
}

}  // namespace baleen
