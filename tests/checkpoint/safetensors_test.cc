// One safetensors file: what is written is read, and every way in which a header can lie is refused with a
// sentence.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <tuple>

#include "base/error.h"

namespace baleen {
namespace {

std::string file_text(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file + header + std::string(data_bytes, 'x');
}

std::vector<TensorInfo> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "f.safetensors");
}

/// The sentence with which the file is refused; empty if it is accepted.
std::string refusal(const std::string& file) {
  try {
    static_cast<void>(parse(file));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Safetensors, ReadsTensorsInNameOrder) {
  const std::string file = file_text(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"c":{"dtype":"I8","shape":[0,5],"data_offsets":[4,4]}}  )",
      16);
  const auto tensors = parse(file);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].type_text(), "F32 []");
  EXPECT_EQ(tensors[0].num_elements(), 1);
  EXPECT_EQ(tensors[1].type_text(), "BF16 [2, 3]");
  EXPECT_EQ(tensors[1].bytes.size(), 12u);
  EXPECT_EQ(reinterpret_cast<const char*>(tensors[1].bytes.data()), file.data() + file.size() - 12);
  EXPECT_EQ(tensors[1].file, "f.safetensors");
  EXPECT_EQ(tensors[2].num_elements(), 0);
  EXPECT_EQ(find_tensor(tensors, "b"), &tensors[1]);
  EXPECT_EQ(find_tensor(tensors, "bb"), nullptr);
}

TEST(Safetensors, AFileWithoutTensors) { EXPECT_TRUE(parse(file_text("{}", 0)).empty()); }

TEST(Safetensors, EveryDamageHasItsSentence) {
  const std::string absurd_length = std::string(8, '\xFF') + "{}";
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"empty", "", "0 bytes, a safetensors file begins with"},
      {"truncated length", "1234567", "7 bytes, a safetensors file begins with"},
      {"absurd length", absurd_length, "a header of 18446744073709551615 bytes, at most 100000000"},
      {"truncated header", file_text(R"({"a":1})", 0).substr(0, 12),
       "should take 7 bytes, the file ends after 4"},
      {"not a header", file_text("PK  ", 0), "does not begin with '{'"},
      {"zero length", file_text("", 4), "does not begin with '{'"},
      {"not JSON", file_text(R"({"a":)", 0), "not valid JSON at its byte"},
      {"invalid UTF-8", file_text("{\"\xFF\":{}}", 0), "not valid JSON"},
      {"text after the object", file_text("{} x", 0), "not valid JSON"},
      {"missing fields", file_text(R"({"a":{}})", 0),
       "expected \"dtype\", \"shape\" and two \"data_offsets\""},
      {"one offset", file_text(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0]}})", 1),
       "two \"data_offsets\""},
      {"three offsets", file_text(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1,1]}})", 1),
       "two \"data_offsets\""},
      {"unknown dtype", file_text(R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,1]}})", 1),
       "dtype \"F7\" is none"},
      {"dtype a number", file_text(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1),
       "misplaced number"},
      {"negative extent", file_text(R"({"a":{"dtype":"I8","shape":[-1],"data_offsets":[0,1]}})", 1),
       "-1 is negative"},
      {"fractional extent", file_text(R"({"a":{"dtype":"I8","shape":[1.5],"data_offsets":[0,1]}})", 1),
       "1.5 is not a whole number"},
      {"extent beyond 64 bits", file_text(R"({"a":{"dtype":"I8","shape":[1e30],"data_offsets":[0,1]}})", 1),
       "not a whole number"},
      {"extent beyond 63 bits",
       file_text(R"({"a":{"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1),
       "too large"},
      {"product overflows",
       file_text(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       "too large to count"},
      {"rank 9", file_text(R"({"a":{"dtype":"I8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
       "more than 8 numbers"},
      {"nested shape", file_text(R"({"a":{"dtype":"I8","shape":[[1]],"data_offsets":[0,1]}})", 1),
       "misplaced list"},
      {"backwards", file_text(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,0]}})", 1),
       "run backwards"},
      {"out of range", file_text(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 3),
       "the file holds 3 bytes of data"},
      {"wrong length", file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
       "hold 4 bytes, F32 [2] needs 8"},
      {"overlap",
       file_text(
           R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
           4),
       "\"a\" and \"b\" overlap"},
      {"gap",
       file_text(
           R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
           4),
       "1 bytes between \"a\" and \"b\" belong to no tensor"},
      {"left over", file_text(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 4),
       "3 bytes after the last tensor \"a\""},
      {"duplicate",
       file_text(
           R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})",
           2),
       "\"a\" appears twice"},
      {"no name", file_text(R"({"":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1), "without a name"},
      {"tensor not an object", file_text(R"({"a":[1]})", 0), "misplaced list"},
      {"unknown field", file_text(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1],"x":"y"}})", 1),
       "misplaced string"},
      {"metadata not text", file_text(R"({"__metadata__":{"a":1}})", 0), "misplaced number"},
      {"deep nesting", file_text("{\"a\":" + std::string(100000, '{'), 0), "not valid JSON"},
  };
  for (const auto& [what, file, expected] : cases) {
    const std::string sentence = refusal(file);
    EXPECT_NE(sentence.find(expected), std::string::npos)
        << what << ": " << (sentence.empty() ? "accepted" : sentence);
    EXPECT_EQ(sentence.find("f.safetensors"), 0u) << what;
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string file = file_text(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(refusal(file), "");
  for (std::size_t length = 0; length < file.size(); ++length)
    EXPECT_NE(refusal(file.substr(0, length)), "") << length;
}

TEST(Safetensors, AnyFlippedByteIsReadOrRefused) {
  const std::string good = file_text(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[4],"data_offsets":[8,12]}})",
      12);
  EXPECT_TRUE(rc::check([&] {
    std::string file = good;
    const auto place = *rc::gen::inRange<std::size_t>(0, file.size());
    file[place] = static_cast<char>(*rc::gen::inRange(0, 256));
    if (refusal(file).empty()) {
      for (const TensorInfo& tensor : parse(file)) {
        RC_ASSERT(static_cast<std::int64_t>(tensor.bytes.size()) == tensor.size_bytes());
      }
    }
  }));
}

}  // namespace
}  // namespace baleen
