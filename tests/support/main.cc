/// The main function of test programs. `--files=a_test.cc,b_test.cc` runs the cases that these files define;
/// without it, GoogleTest's own options choose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view kFilesOption = "--files=";

/// Whether `path` names one of `files`, which are separated by commas and carry no folders.
bool is_among(std::string_view path, std::string_view files) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  while (!files.empty()) {
    const std::string_view file = files.substr(0, files.find(','));
    if (file == name) return true;
    files.remove_prefix(std::min(files.size(), file.size() + 1));
  }
  return false;
}

/// GoogleTest's filter of the cases that `files` define.
std::string filter_of(std::string_view files) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (is_among(test.file(), files))
        filter.append(suite.name()).append(".").append(test.name()).append(":");
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFilesOption)) {
      std::fprintf(stderr, "%s: unknown option %s\n", argv[0], argv[i]);
      return 2;
    }
    const std::string filter = filter_of(argument.substr(kFilesOption.size()));
    if (filter.empty()) {
      std::fprintf(stderr, "%s: no test is defined in the files of %s\n", argv[0], argv[i]);
      return 2;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
