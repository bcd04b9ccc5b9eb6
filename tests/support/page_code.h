/// Code on pages of documentation, held against what is compiled.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace baleen::test {

[[nodiscard]] inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Each line of code of `page`, which is indented by four spaces and no command ("    $ ..."), is in one of
/// `files`.
inline void expect_compiled(const std::string& page, const std::vector<std::string>& files) {
  std::string code;
  for (const std::string& file : files) code += text_of_file(file);
  std::istringstream lines(text_of_file(page));
  std::string line;
  int num_lines = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("    ") || line.starts_with("    $")) continue;
    ++num_lines;
    EXPECT_NE(code.find(line.substr(4)), std::string::npos) << page << ": not compiled anywhere: " << line;
  }
  EXPECT_GT(num_lines, 5) << page;
}

}  // namespace baleen::test
