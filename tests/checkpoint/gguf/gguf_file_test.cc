// One GGUF file: what is written is read, and every way in which a header can lie is refused with a sentence.
#include "checkpoint/gguf/gguf_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>

#include "base/error.h"
#include "tests/support/gguf_builder.h"

namespace baleen {
namespace {

using test::gguf_bytes;
using test::GgufBuilder;

GgufContents parse(const std::string& file) {
  return parse_gguf(std::as_bytes(std::span(file.data(), file.size())), "f.gguf");
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

/// Every kind of value, and tensors of four types.
GgufBuilder every_kind() {
  GgufBuilder file;
  file.key("general.architecture", "deepseek4");
  file.flag("a.flag", true);
  file.key("a.u32", std::uint32_t{7});
  file.key("a.f32", 0.5F);
  file.key("a.i8", GgufValueType::kI8, gguf_bytes(std::int8_t{-3}));
  file.key("a.u64", GgufValueType::kU64, gguf_bytes(std::uint64_t{1} << 40));
  file.key("a.f64", GgufValueType::kF64, gguf_bytes(0.25));
  file.array("a.i32s", GgufValueType::kI32, std::vector<std::int32_t>{1, -2, 3});
  file.array("a.u16s", GgufValueType::kU16, std::vector<std::uint16_t>{65535});
  file.array("a.f32s", GgufValueType::kF32, std::vector<float>{1.5F, 10.0F});
  file.array("a.texts", GgufValueType::kString, std::vector<std::string>{"", "\n", "abc"});
  file.tensor("w", {2, 3}, 0, std::string(24, 'w'));
  file.tensor("q", {3, 64}, 8, std::string(3 * 68, 'q'));
  file.tensor("m", {2, 4, 32}, 39, std::string(8 * 17, 'm'));
  file.tensor("none", {0, 256}, 12, "");
  return file;
}

TEST(GgufFile, ReadsKeysAndTensors) {
  const std::string file = every_kind().text();
  const GgufContents found = parse(file);
  const GgufKeys& keys = found.keys;
  EXPECT_EQ(keys.size(), 11u);
  EXPECT_EQ(keys.text("general.architecture"), "deepseek4");
  EXPECT_EQ(keys.flag("a.flag"), true);
  EXPECT_EQ(keys.whole("a.u32"), 7);
  EXPECT_EQ(keys.whole("a.i8"), -3);
  EXPECT_EQ(keys.whole("a.u64"), std::int64_t{1} << 40);
  EXPECT_EQ(keys.real("a.f32"), 0.5);
  EXPECT_EQ(keys.real("a.f64"), 0.25);
  EXPECT_EQ(keys.real("a.u32"), 7.0);
  EXPECT_EQ(keys.wholes("a.i32s"), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(keys.wholes("a.u16s"), std::vector<std::int64_t>{65535});
  EXPECT_EQ(keys.reals("a.f32s"), (std::vector<double>{1.5, 10.0}));
  EXPECT_EQ(keys.texts("a.texts"), (std::vector<std::string_view>{"", "\n", "abc"}));
  EXPECT_EQ(keys.whole("absent"), std::nullopt);
  EXPECT_EQ(keys.texts("absent"), std::nullopt);

  ASSERT_EQ(found.tensors.size(), 4u);  // in name order
  EXPECT_EQ(found.tensors[0].name, "m");
  EXPECT_EQ(found.tensors[0].type_text(), "MXFP4 [2, 4, 32]");
  EXPECT_EQ(found.tensors[0].bytes.size(), 8u * 17u);
  EXPECT_EQ(found.tensors[1].bytes.size(), 0u);
  EXPECT_EQ(found.tensors[2].type_text(), "Q8_0 [3, 64]");
  EXPECT_EQ(found.tensors[3].type_text(), "F32 [2, 3]");
  EXPECT_EQ(found.tensors[3].num_elements(), 6);
  EXPECT_EQ(found.tensors[3].file, "f.gguf");
  for (const GgufTensor& tensor : found.tensors)
    for (const std::byte value : tensor.bytes) ASSERT_EQ(static_cast<char>(value), tensor.name[0]);
}

TEST(GgufFile, OtherAlignmentsAndVersionTwo) {
  GgufBuilder file;
  file.version = 2;
  file.alignment = 128;
  file.key("general.alignment", std::uint32_t{128});
  file.tensor("a", {1}, 24, "a");
  file.tensor("b", {2}, 24, "bb");
  const std::string text = file.text();
  EXPECT_EQ(static_cast<char>(parse(text).tensors[1].bytes[0]), 'b');
}

TEST(GgufFile, KindsOfValuesAreToldApart) {
  const std::string file = every_kind().text();
  const GgufKeys keys = parse(file).keys;
  const auto sentence = [&](const std::function<void()>& look) -> std::string {
    try {
      look();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence([&] { static_cast<void>(keys.whole("a.f32")); }),
            "f.gguf: key \"a.f32\": expected a whole number; is this the file of a DeepSeek-V4 model?");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.text("a.u32")); }), "");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.flag("a.u32")); }), "");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.real("a.flag")); }), "");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.wholes("a.f32s")); }), "");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.reals("a.i32s")); }), "");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.texts("a.i32s")); }), "");
  EXPECT_NE(sentence([&] { static_cast<void>(keys.wholes("a.u32")); }), "");
}

TEST(GgufFile, EveryDamageHasItsSentence) {
  struct Case {
    const char* what;
    std::function<void(GgufBuilder&)> change;
    const char* expected;
  };
  const auto tensor = [](auto change) { return [change](GgufBuilder& file) { change(file.tensors[0]); }; };
  const Case cases[] = {
      {"version 1", [](auto& file) { file.version = 1; }, "GGUF version 1, versions 2 and 3 are read"},
      {"big-endian", [](auto& file) { file.version = 0x03000000; }, "of a big-endian machine"},
      {"key twice", [](auto& file) { file.key("a.u32", std::uint32_t{7}); }, "key \"a.u32\" is there twice"},
      {"empty key", [](auto& file) { file.flag("", true); }, "a key \"\": expected 1 to 512 bytes"},
      {"control character", [](auto& file) { file.flag("a\x1B[2J", true); }, "without control characters"},
      {"long key", [](auto& file) { file.flag(std::string(513, 'k'), true); }, "expected 1 to 512 bytes"},
      {"unknown value", [](auto& file) { file.key("x", GgufValueType{13}, "1234"); }, "type 13 of a value"},
      {"u64 beyond 63 bits", [](auto& file) { file.key("x", GgufValueType::kU64, std::string(8, '\xFF')); },
       "beyond 63 bits"},
      {"array of arrays",
       [](auto& file) {
         file.key("x", GgufValueType::kArray, gguf_bytes(std::uint32_t{9}) + std::string(8, '\0'));
       },
       "an array of arrays"},
      {"unknown elements",
       [](auto& file) {
         file.key("x", GgufValueType::kArray, gguf_bytes(std::uint32_t{13}) + std::string(8, '\0'));
       },
       "type 13 of a value"},
      {"absurd array",
       [](auto& file) {
         file.key("x", GgufValueType::kArray, gguf_bytes(std::uint32_t{10}) + std::string(8, '\xFF'));
       },
       "18446744073709551615 values cannot be in"},
      {"absurd text", [](auto& file) { file.key("x", GgufValueType::kString, std::string(8, '\xFF')); },
       "should take 18446744073709551615 bytes"},
      {"absurd text in an array",
       [](auto& file) {
         file.key("x", GgufValueType::kArray,
                  gguf_bytes(std::uint32_t{8}) + gguf_bytes(std::uint64_t{1}) + std::string(8, '\x7F'));
       },
       "should take 9187201950435737471 bytes"},
      {"alignment 0", [](auto& file) { file.key("general.alignment", std::uint32_t{0}); },
       "is 0, expected a power"},
      {"alignment 48", [](auto& file) { file.key("general.alignment", std::uint32_t{48}); },
       "is 48, expected a power of two"},
      {"alignment a text", [](auto& file) { file.key("general.alignment", "32"); },
       "expected a whole number"},
      {"nameless tensor", tensor([](auto& t) { t.name = ""; }), "a tensor's name \"\": expected 1 to"},
      {"tensor twice", tensor([](auto& t) { t.name = "q"; }), "tensor \"q\" is there twice"},
      {"rank 5", tensor([](auto& t) {
         t.shape = {1, 1, 1, 2, 3};
       }),
       "5 axes, at most 4"},
      {"negative extent", tensor([](auto& t) {
         t.shape = {-1, 3};
       }),
       "an extent of 18446744073709551615"},
      {"product overflows", tensor([](auto& t) {
         t.shape = {1LL << 32, 1LL << 32};
       }),
       "too large to count"},
      {"bytes overflow", tensor([](auto& t) { t.shape = {1LL << 62}; }), "too large to count"},
      {"rows break blocks", tensor([](auto& t) { t.type = 8; }),
       "rows of 3, which Q8_0 divides into blocks of 32"},
      {"unknown type", tensor([](auto& t) { t.type = 99; }), "its type has id 99, which is not read here"},
      {"type 40", tensor([](auto& t) { t.type = 40; }),
       "id 40 (NVFP4 to llama.cpp, another type to forks of ds4)"},
      {"type 41", tensor([](auto& t) { t.type = 41; }),
       "id 41 (Q1_0 to llama.cpp, another type to forks of ds4)"},
      {"type 31", tensor([](auto& t) { t.type = 31; }), "id 31 (a type that llama.cpp has given up)"},
      {"misaligned", tensor([](auto& t) { t.offset = 8; }),
       "begins at byte 8 of the data, expected a multiple of 32"},
      {"overlap", tensor([](auto& t) { t.offset = 32; }), "tensors \"w\" and \"q\" overlap"},
      {"outside", tensor([](auto& t) { t.offset = 1 << 20; }),
       "should take 24 bytes from byte 1048576 of the data"},
      {"too large", tensor([](auto& t) {
         t.shape = {1 << 20, 3};
       }),
       "should take 12582912 bytes from byte 0"},
  };
  for (const Case& one : cases) {
    GgufBuilder file = every_kind();
    one.change(file);
    const std::string sentence = refusal(file.text());
    EXPECT_NE(sentence.find(one.expected), std::string::npos)
        << one.what << ": " << (sentence.empty() ? "accepted" : sentence);
    EXPECT_EQ(sentence.find("f.gguf"), 0u) << one.what;
  }
}

TEST(GgufFile, AbsurdCountsAreRefusedBeforeMemoryIsTaken) {
  for (const std::size_t place : {8, 16}) {
    std::string file = every_kind().text();
    file.replace(place, 8, std::string(8, '\xFF'));
    EXPECT_NE(refusal(file).find("18446744073709551615 "), std::string::npos) << refusal(file);
    EXPECT_NE(refusal(file).find(" cannot be in "), std::string::npos);
  }
  EXPECT_NE(refusal("").find("does not begin with \"GGUF\""), std::string::npos);
  EXPECT_NE(refusal("GGML1234").find("does not begin with \"GGUF\""), std::string::npos);
}

TEST(GgufFile, EveryTruncationIsRefused) {
  const std::string file = every_kind().text();
  ASSERT_EQ(refusal(file), "");
  const std::size_t padding = 32 - 8 * 17 % 32;  // behind the last tensor
  for (std::size_t length = 0; length < file.size() - padding; ++length)
    EXPECT_NE(refusal(file.substr(0, length)), "") << length;
}

TEST(GgufFile, AnyFlippedByteIsReadOrRefused) {
  const std::string good = every_kind().text();
  EXPECT_TRUE(rc::check([&] {
    std::string file = good;
    const auto place = *rc::gen::inRange<std::size_t>(0, file.size());
    file[place] = static_cast<char>(*rc::gen::inRange(0, 256));
    if (!refusal(file).empty()) return;
    for (const GgufTensor& tensor : parse(file).tensors) {
      const auto* begin = reinterpret_cast<const std::byte*>(file.data());
      RC_ASSERT(tensor.bytes.empty() || (tensor.bytes.data() >= begin &&
                                         tensor.bytes.data() + tensor.bytes.size() <= begin + file.size()));
    }
  }));
}

TEST(GgufFile, EveryTypeHasTheBytesThatItsBlocksTake) {
  // Bits of an element, by the names that people know.
  const std::pair<const char*, double> bits[] = {
      {"F32", 32},         {"F16", 16},       {"BF16", 16},        {"Q4_0", 4.5},      {"Q4_1", 5},
      {"Q5_0", 5.5},       {"Q5_1", 6},       {"Q8_0", 8.5},       {"Q8_1", 9},        {"Q2_K", 2.625},
      {"Q3_K", 3.4375},    {"Q4_K", 4.5},     {"Q5_K", 5.5},       {"Q6_K", 6.5625},   {"Q8_K", 9.125},
      {"IQ1_S", 1.5625},   {"IQ1_M", 1.75},   {"IQ2_XXS", 2.0625}, {"IQ2_XS", 2.3125}, {"IQ2_S", 2.5625},
      {"IQ3_XXS", 3.0625}, {"IQ3_S", 3.4375}, {"IQ4_NL", 4.5},     {"IQ4_XS", 4.25},   {"MXFP4", 4.25},
      {"TQ1_0", 1.6875},   {"TQ2_0", 2.0625}, {"I8", 8},           {"I16", 16},        {"I32", 32},
      {"I64", 64},         {"F64", 64}};
  std::size_t known = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const GgmlTypeTraits* const traits = find_ggml_type(id);
    if (traits == nullptr) {
      EXPECT_NE(ggml_type_refusal(id).find(std::to_string(id)), std::string::npos);
      continue;
    }
    ++known;
    for (const auto& [name, want] : bits) {
      if (traits->name != name) continue;
      EXPECT_EQ(8.0 * static_cast<double>(traits->block_bytes),
                want * static_cast<double>(traits->block_elements))
          << name;
    }
  }
  EXPECT_EQ(known, std::size(bits));
}

}  // namespace
}  // namespace baleen
