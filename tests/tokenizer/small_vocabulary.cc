#include "tests/tokenizer/small_vocabulary.h"

namespace baleen {
namespace {

/// Written apart from the tokenizer's own table, so that one mistake cannot hide in both.
std::string printable(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    int code_point = byte;
    if (byte <= 0x20) code_point = 0x100 + byte;
    if (byte >= 0x7F && byte <= 0xA0) code_point = 0x121 + byte - 0x7F;
    if (byte == 0xAD) code_point = 0x143;
    if (code_point < 0x80) {
      text += static_cast<char>(code_point);
    } else {
      text += static_cast<char>(0xC0 | (code_point >> 6));
      text += static_cast<char>(0x80 | (code_point & 0x3F));
    }
  }
  return text;
}

}  // namespace

nlohmann::json small_vocabulary(const std::vector<BytePair>& merges) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[printable({static_cast<char>(byte)})] = byte;
  nlohmann::json lines = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    const std::string merged = printable(left + right);
    if (!vocab.contains(merged)) vocab[merged] = vocab.size();
    lines.push_back(printable(left) + " " + printable(right));
  }
  return {{"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers", {{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", lines}}}};
}

nlohmann::json added_token(std::int32_t id, const std::string& content, bool special, bool normalized) {
  return {{"id", id}, {"content", content}, {"special", special}, {"normalized", normalized}};
}

nlohmann::json split(const std::string& kind, const std::string& pattern) {
  return {{"type", "Split"}, {"pattern", {{kind, pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

}  // namespace baleen
