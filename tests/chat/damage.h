/// Damaged shapes of well-formed replies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace baleen::test {

struct DamagedReply {
  std::string what;  ///< which damage, for messages
  std::string text;
};

/// Whether a token is left that opens a tag. Without one there is no block: the reply is prose that looks
/// like one.
inline bool opens_block(std::string_view reply) {
  static constexpr std::string_view kToken = "｜DSML｜";
  for (std::size_t at = reply.find(kToken); at != std::string_view::npos; at = reply.find(kToken, at + 1)) {
    const std::string_view before = reply.substr(0, at), after = reply.substr(at + kToken.size());
    const bool is_closing = before.ends_with("/") || after.starts_with("/");
    if (!is_closing && (after.starts_with("invoke") || after.find("_calls") < 10)) return true;
  }
  return false;
}

/// One shape for each place where `from` occurs, with `to` there instead, and one with all of them.
inline void add_replaced(std::vector<DamagedReply>& shapes, std::string_view reply, std::string_view from,
                         std::string_view to) {
  const std::string what = quote_python_json(from) + " as " + quote_python_json(to);
  std::string all(reply);
  std::size_t offset_in_all = 0, num_places = 0;
  for (std::size_t at = reply.find(from); at != std::string_view::npos;
       at = reply.find(from, at + from.size())) {
    shapes.push_back(
        {what + ", byte " + std::to_string(at), std::string(reply).replace(at, from.size(), to)});
    all.replace(at + offset_in_all, from.size(), to);
    offset_in_all += to.size() - from.size();
    ++num_places;
  }
  if (num_places > 1) shapes.push_back({what + ", everywhere", all});
}

/// Damage to the markup of tool calls that leaves no doubt about what was meant.
inline std::vector<DamagedReply> with_damaged_markup(std::string_view reply) {
  static constexpr struct {
    std::string_view from, to;
  } kDamages[] = {
      // Missing closers, also with their line.
      {"</｜DSML｜parameter>", ""},
      {"</｜DSML｜parameter>\n", ""},
      {"\n</｜DSML｜invoke>", ""},
      {"</｜DSML｜tool_calls>", ""},
      {"</｜DSML｜parameter>", "<｜DSML｜parameter>"},
      {"</｜DSML｜invoke>", "<｜DSML｜invoke>"},
      {"</｜DSML｜parameter>\n</｜DSML｜invoke>", ""},
      {"</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>", ""},
      // Openers of the block.
      {"\n\n<｜DSML｜tool_calls>\n", "\n\n"},
      {"\n\n<｜DSML｜tool_calls>", "<｜DSML｜tool_calls>"},
      {"tool_calls>", "function_calls>"},
      // Brackets and bars.
      {"<｜DSML｜", "<|DSML|"},
      {"</｜DSML｜", "</|DSML|"},
      {"<｜DSML｜", "<DSML｜"},
      {"<｜DSML｜", "<｜DSML"},
      {"<｜DSML｜", "｜DSML｜"},
      {"<｜DSML｜", "|DSML|"},
      {"</｜DSML｜", "/｜DSML｜"},
      {"</｜DSML｜", "<｜DSML｜/"},
      {"<｜DSML｜", "< ｜DSML｜ "},
      {"\">", "\""},
      {"\">", "\" >"},
      {"parameter>", "parameter"},
      {"invoke>", "invoke"},
      {"tool_calls>", "tool_calls"},
      {"parameter>", "parameter >"},
      // Quotation marks.
      {"name=\"", "name='"},
      {"name=\"", "name=“"},
      {"name=\"", "name="},
      {"\">\n", "'>\n"},
      {"\">\n", "”>\n"},
      {"\">\n", ">\n"},
      {"\" string=", "' string="},
      {"\" string=", "” string="},
      {"\" string=", " string="},
      {"string=\"", "string="},
      {"string=\"", "string='"},
      {"string=\"true\"", "string=“true”"},
      {"string=\"true\"", "string=\\\"true\\\""},
      {"string=\"true\"", "string=\"True\""},
      {"string=\"false\"", "string=\"False\""},
      // Attributes.
      {" string=\"true\"", ""},
      {" string=\"false\"", ""},
      {"string=\"true\"", "string=\"false\""},
      {"string=\"false\"", "string=\"true\""},
      {"string=\"true\"", "string=\"yes\""},
      {"name=\"city\" string=\"true\"", "string=\"true\" name=\"city\""},
      {"name=", "name ="},
      {"name=", "name: "},
      {"\" string", "\"string"},
      // White space.
      {">\n<", "><"},
      {">\n<", ">\n\n<"},
      {">\n<", ">  \n\t<"},
      // Nested and repeated tags.
      {"<｜DSML｜tool_calls>\n", "<｜DSML｜tool_calls>\n<｜DSML｜tool_calls>\n"},
      {"</｜DSML｜parameter>", "</｜DSML｜parameter></｜DSML｜parameter>"},
      {"</｜DSML｜invoke>", "</｜DSML｜invoke>\n</｜DSML｜invoke>"},
      {"<｜DSML｜invoke name=\"weather\">\n",
       "<｜DSML｜invoke name=\"weather\">\n<｜DSML｜invoke name=\"weather\">\n"},
      {"<｜DSML｜parameter name=\"city\" string=\"true\">",
       "<｜DSML｜parameter name=\"city\" string=\"true\"><｜DSML｜parameter name=\"city\" string=\"true\">"},
      // Strings that do not belong there.
      {">\n<", "></think>\n<"},
      {">\n<", ">\n<think><"},
      {">\n<", ">\n<｜User｜><"},
      {">\n<", ">\n｜DSML｜<"},
      {">\n<", ">\n<｜DSML｜thing a=\"b\">\n<"},
      // JSON as other languages write it.
      {"true}", "True}"},
      {"null", "None"},
      {"[\"a\"", "['a'"},
      {"{\"k\"", "{k"},
      {"]", ",]"},
      {"]", "]]"},
      {"}]", "}"},
  };
  std::vector<DamagedReply> shapes;
  for (const auto& [from, to] : kDamages) add_replaced(shapes, reply, from, to);
  return shapes;
}

/// Damage after which there is no call left, or not the one that was meant.
inline std::vector<DamagedReply> with_other_calls(std::string_view reply) {
  static constexpr struct {
    std::string_view from, to;
  } kDamages[] = {
      {"name=\"weather\"", "name=\"wether\""},
      {"name=\"weather\"", ""},
      {"invoke name=\"weather\"", "call name=\"weather\""},
      {"name=\"city\" ", ""},
      {"name=\"city\"", "name=\"<think>\""},
      {"<｜DSML｜parameter name=\"city\"", "<｜DSML｜invoke name=\"city\""},
      {"｜DSML｜", ""},
      {"｜DSML｜", "<｜DSML｜"},
      {"<｜DSML｜invoke name=\"weather\">\n", ""},
      {">\n<", ">\nwords\n<"},
      {">\n<", ">\n<thi<think>nk>｜<｜User｜>DSML｜\n<"},
      {"</think>", ""},
      {"</think>", "</think></think>"},
  };
  std::vector<DamagedReply> shapes;
  for (const auto& [from, to] : kDamages) add_replaced(shapes, reply, from, to);
  return shapes;
}

}  // namespace baleen::test
