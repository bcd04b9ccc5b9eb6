// What every operation of the list has, and what no file outside an architecture's folders may say.
#include "ops/operations.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "ops/operation/variant_table.h"

namespace baleen {
namespace {

TEST(Operations, EachHasANameACostAndAReference) {
  std::set<std::string_view> names;
  Operations::for_each([&]<class Op>(std::type_identity<Op>) {
    EXPECT_TRUE(names.insert(Op::kName).second) << Op::kName << ": two operations of one name";
    static_assert(std::is_same_v<decltype(Op::cost(std::declval<const typename Op::Args&>())), OpCost>);
    std::set<std::string_view> variants;
    for (const CpuVariant<Op>& variant : Op::cpu_variants()) {
      EXPECT_TRUE(variants.insert(variant.name).second)
          << Op::kName << ": two variants called " << variant.name;
      EXPECT_NE(variant.run, nullptr) << Op::kName << " " << variant.name;
    }
    EXPECT_TRUE(variants.contains(kReferenceVariant)) << Op::kName << " has no reference";
  });
  EXPECT_EQ(names.size(), Operations::kSize);
}

TEST(Operations, TheReferenceIsLastAndTakesEverything) {
  Operations::for_each([]<class Op>(std::type_identity<Op>) {
    const CpuVariant<Op>& last = Op::cpu_variants().back();
    EXPECT_EQ(last.name, kReferenceVariant) << Op::kName;
    EXPECT_EQ(last.why_not, nullptr) << Op::kName;
  });
}

TEST(Operations, NoFileOutsideAnArchitectureIncludesItsKernels) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("src")) {
    const std::string path = entry.path().string();
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file()) continue;
    if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") continue;
    ++num_files;
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      if (!line.starts_with("#include")) continue;
      for (const std::string architecture : {"sm90", "sm80"}) {
        const std::string folder = "/" + architecture + "/";
        const bool includes =
            path.find(folder) == std::string::npos && line.find(folder) != std::string::npos;
        // The list of the architecture is what a device takes.
        EXPECT_FALSE(includes && line != "#include \"ops/" + architecture + "/variants.h\"")
            << path << ": " << line;
      }
    }
  }
  EXPECT_GT(num_files, 100) << "run from the repository root";
}

}  // namespace
}  // namespace baleen
