/// Who may ask: keys from a file, compared in constant time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

class ApiKeys {
 public:
  /// No keys: everyone may.
  ApiKeys() = default;
  /// One key a line; empty lines and lines that begin with # are passed over. Throws `Error` when the file
  /// cannot be read or holds no key.
  explicit ApiKeys(const std::filesystem::path& file);

  [[nodiscard]] bool required() const { return !keys_.empty(); }
  /// Time depends on the number of keys and the longest of them and of `candidate`, never on their content.
  [[nodiscard]] bool admits(std::string_view candidate) const;

 private:
  std::vector<std::string> keys_;
};

/// The key of `Authorization: Bearer KEY`, or else of `x-api-key`; empty when there is none.
[[nodiscard]] std::string_view presented_key(std::string_view authorization, std::string_view x_api_key);

}  // namespace baleen
