#include "server/route_path.h"

namespace baleen {
namespace {

constexpr std::string_view kVersion = "/v1";

/// Whether the path is `start` or lies under it.
bool is_under(std::string_view path, std::string_view start) {
  return path.starts_with(start) && (path.size() == start.size() || path[start.size()] == '/');
}

}  // namespace

std::string route_path(std::string_view path) {
  if (path == "*") return "*";
  std::string plain;
  for (const char c : path) {
    if (c != '/' || plain.empty() || plain.back() != '/') plain += c;
  }
  if (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  while (is_under(plain, kVersion) && is_under(std::string_view(plain).substr(kVersion.size()), kVersion))
    plain.erase(0, kVersion.size());
  for (const std::string_view api :
       {"/chat/completions", "/completions", "/responses", "/messages", "/models"}) {
    if (is_under(plain, api)) return std::string(kVersion) + plain;
  }
  return plain;
}

}  // namespace baleen
