// A model of one GGUF file or of several parts, and what is found in a folder.
#include "checkpoint/gguf/gguf_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::gguf_bytes;
using test::GgufBuilder;

class GgufModels : public testing::Test {
 protected:
  /// Part `number` from 0 on, with one tensor named "t" and its number.
  void write_part(const fs::path& path, int number, int count, std::int32_t tensors) const {
    GgufBuilder part;
    if (number == 0) part.key("general.architecture", "deepseek4");
    part.key("split.no", GgufValueType::kU16, gguf_bytes(static_cast<std::uint16_t>(number)));
    part.key("split.count", GgufValueType::kU16, gguf_bytes(static_cast<std::uint16_t>(count)));
    part.key("split.tensors.count", GgufValueType::kI32, gguf_bytes(tensors));
    part.tensor("t" + std::to_string(number), {1}, 24, std::string(1, static_cast<char>('a' + number)));
    part.write(path);
  }
  void write_three(std::int32_t tensors = 3) const {
    for (int i = 0; i < 3; ++i) write_part(part(i), i, 3, tensors);
  }
  [[nodiscard]] fs::path part(int number) const {
    return folder_ / ("m-0000" + std::to_string(number + 1) + "-of-00003.gguf");
  }
  static std::string refusal(const fs::path& path) {
    try {
      const GgufModel model(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

TEST_F(GgufModels, PartsAreOneModelWhicheverIsGiven) {
  write_three();
  for (int given = 0; given < 3; ++given) {
    const GgufModel model(part(given));
    EXPECT_EQ(model.path(), part(0));
    EXPECT_EQ(model.keys().text("general.architecture"), "deepseek4");
    ASSERT_EQ(model.tensors().size(), 3u);
    EXPECT_EQ(model.files().size(), 3u);
    for (int i = 0; i < 3; ++i) {
      const GgufTensor* const found = model.find("t" + std::to_string(i));
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(static_cast<char>(found->bytes[0]), 'a' + i);
      EXPECT_EQ(found->file, part(i).string());
    }
    EXPECT_EQ(model.find("t3"), nullptr);
  }
}

TEST_F(GgufModels, PartsThatDoNotBelongTogether) {
  write_three();
  fs::remove(part(1));
  EXPECT_NE(
      refusal(part(0)).find("m-00002-of-00003.gguf: absent, but m-00001-of-00003.gguf is one of 3 parts"),
      std::string::npos);
  write_part(part(1), 2, 3, 3);
  EXPECT_NE(refusal(part(0)).find("its keys say part 3 of 3, its name 2 of 3"), std::string::npos)
      << refusal(part(0));
  write_part(part(1), 1, 4, 3);
  EXPECT_NE(refusal(part(0)).find("its keys say part 2 of 4, its name 2 of 3"), std::string::npos);
  write_three(4);
  EXPECT_NE(refusal(part(0)).find("3 tensors in 3 parts, \"split.tensors.count\" says 4"), std::string::npos);
  write_part(folder_ / "renamed.gguf", 0, 3, 3);
  EXPECT_NE(refusal(folder_ / "renamed.gguf").find("one of 3 parts by its keys"), std::string::npos);
  GgufBuilder twin;
  twin.key("split.no", GgufValueType::kU16, gguf_bytes(std::uint16_t{1}));
  twin.key("split.count", GgufValueType::kU16, gguf_bytes(std::uint16_t{3}));
  twin.tensor("t0", {1}, 24, "x");
  write_three();
  twin.write(part(1));
  EXPECT_NE(refusal(part(0)).find("tensor \"t0\" is in "), std::string::npos);
}

TEST_F(GgufModels, FoldersAndFiles) {
  EXPECT_EQ(find_gguf(folder_ / ""), std::nullopt);
  write_three();
  EXPECT_EQ(find_gguf(folder_ / ""), part(0));
  EXPECT_EQ(find_gguf(part(2)), part(2));
  std::ofstream(folder_ / "x.gguf") << "no such file";
  EXPECT_EQ(find_gguf(folder_ / "x.gguf"), std::nullopt);
  EXPECT_EQ(find_gguf(folder_ / ""), part(0));
  GgufBuilder().write(folder_ / "other.gguf");
  try {
    static_cast<void>(find_gguf(folder_ / ""));
    ADD_FAILURE() << "two models";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2 GGUF models (m-00001-of-00003.gguf, other.gguf); pass"),
              std::string::npos)
        << error.what();
  }
  std::ofstream(folder_ / "model.safetensors") << "x";
  EXPECT_EQ(find_gguf(folder_ / ""), std::nullopt);
}

}  // namespace
}  // namespace baleen
