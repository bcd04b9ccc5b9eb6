#include "app/chat_command.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

using Kind = ChatCommand::Kind;

const PromptProfile& preview() { return PromptProfile::kPreview; }
const PromptProfile& official() { return PromptProfile::kOfficial; }

ChatCommand parsed(const std::string& line, const PromptProfile& profile = preview()) {
  return parse_chat_command(line, profile).value();
}

std::string error_of(const std::string& line, const PromptProfile& profile = preview()) {
  const auto command = parse_chat_command(line, profile);
  return command.ok() ? "" : command.error();
}

TEST(ChatCommand, OnlyALineThatBeginsWithASlashIsOne) {
  EXPECT_TRUE(is_chat_command("/help"));
  EXPECT_TRUE(is_chat_command("/"));
  EXPECT_FALSE(is_chat_command(" /help"));
  EXPECT_FALSE(is_chat_command("tell me"));
  EXPECT_FALSE(is_chat_command(""));
}

TEST(ChatCommand, EachIsUnderstood) {
  EXPECT_EQ(parsed("/help").kind, Kind::kHelp);
  EXPECT_EQ(parsed("/new  ").kind, Kind::kNew);
  EXPECT_EQ(parsed("/save a").kind, Kind::kSave);
  EXPECT_EQ(parsed("/load a").kind, Kind::kLoad);
  EXPECT_EQ(parsed("/think\thigh").kind, Kind::kThink);
  EXPECT_EQ(parsed("/stats").kind, Kind::kStats);
  EXPECT_EQ(parsed("/quit\r").kind, Kind::kQuit);
}

TEST(ChatCommand, ArgumentsArrive) {
  EXPECT_EQ(parsed("/save a.json").file, "a.json");
  EXPECT_EQ(parsed("/save   my fox story.json  ").file, "my fox story.json");
  EXPECT_EQ(parsed("/load x").file, "x");
  EXPECT_EQ(parsed("/think off").thinking.mode(), ThinkingMode::kChat);
  EXPECT_EQ(parsed("/think high").thinking.mode(), ThinkingMode::kThinking);
  EXPECT_EQ(parsed("/think max").thinking.effort, "max");
  EXPECT_EQ(parsed("/think low", official()).thinking.effort, "low");
}

TEST(ChatCommand, MistakesGetASentence) {
  EXPECT_EQ(error_of("/save"), "/save is followed by FILE");
  EXPECT_EQ(error_of("/load  "), "/load is followed by FILE");
  EXPECT_EQ(error_of("/think"), "/think is followed by off|high|max");
  EXPECT_EQ(error_of("/think", official()), "/think is followed by off|low|high|max");
  EXPECT_EQ(error_of("/think", PromptProfile::kV41), "/think is followed by off|low|high|max|1..100");
  EXPECT_EQ(parsed("/think 37", PromptProfile::kV41).thinking.effort, "37");
  EXPECT_EQ(error_of("/think 101", PromptProfile::kV41),
            "/think: expected off, low, high, max or a number from 1 to 100 (prompt profile v4.1), found "
            "\"101\"");
  EXPECT_EQ(error_of("/think low"),
            "/think: expected off, high or max (prompt profile preview), found \"low\"");
  EXPECT_EQ(error_of("/think hard", official()),
            "/think: expected off, low, high or max (prompt profile official), found \"hard\"");
  EXPECT_EQ(error_of("/new story"), "/new stands alone; found \"story\" after it");
  const std::string unknown = "; /help lists them, and a space before the slash sends the line as a message";
  EXPECT_EQ(error_of("/Save x"), "there is no command /Save" + unknown);
  EXPECT_EQ(error_of("/usr/bin is full"), "there is no command /usr/bin" + unknown);
  EXPECT_EQ(error_of("/"), "there is no command /" + unknown);
}

TEST(ChatCommand, IsOneLineOfText) {
  for (const std::string& line :
       {std::string("/save a\nand this"), std::string("/load a\n"), std::string("/save a\0b", 9),
        std::string("/save a\x1B[2J"), std::string("/quit\nnot yet"), std::string("/new\n")}) {
    EXPECT_NE(error_of(line).find("one line"), std::string::npos) << line;
  }
}

TEST(ChatCommand, HelpNamesThemAll) {
  const std::string help = chat_command_help(preview());
  for (const char* name :
       {"/help", "/new", "/save FILE", "/load FILE", "/think off|high|max", "/stats", "/quit"}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace baleen
