#include "app/chat_command.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

template <class Command>
bool is(const std::string& line) {
  const auto command = parse_chat_command(line);
  return command.ok() && std::holds_alternative<Command>(command.value());
}

std::string error_of(const std::string& line) {
  const auto command = parse_chat_command(line);
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
  EXPECT_TRUE(is<chat_command::Help>("/help"));
  EXPECT_TRUE(is<chat_command::New>("/new  "));
  EXPECT_TRUE(is<chat_command::Stats>("/stats"));
  EXPECT_TRUE(is<chat_command::Quit>("/quit\r"));
  EXPECT_TRUE(is<chat_command::Think>("/think\thigh"));
}

TEST(ChatCommand, ArgumentsArrive) {
  const auto file = [](const char* line) {
    return std::get<chat_command::Save>(parse_chat_command(line).value()).file;
  };
  EXPECT_EQ(file("/save a.json"), "a.json");
  EXPECT_EQ(file("/save   my fox story.json  "), "my fox story.json");
  EXPECT_EQ(std::get<chat_command::Load>(parse_chat_command("/load x").value()).file, "x");
  const auto level = [](const char* line) {
    return std::get<chat_command::Think>(parse_chat_command(line).value()).level;
  };
  EXPECT_EQ(level("/think off"), Thinking::kOff);
  EXPECT_EQ(level("/think high"), Thinking::kHigh);
  EXPECT_EQ(level("/think max"), Thinking::kMax);
}

TEST(ChatCommand, MistakesGetASentence) {
  EXPECT_EQ(error_of("/save"), "/save is followed by FILE");
  EXPECT_EQ(error_of("/load  "), "/load is followed by FILE");
  EXPECT_EQ(error_of("/think"), "/think is followed by off|high|max");
  EXPECT_EQ(error_of("/think hard"), "/think is followed by off, high or max; found \"hard\"");
  EXPECT_EQ(error_of("/new story"), "/new stands alone; found \"story\" after it");
  const std::string unknown = "; /help lists them, and a space before the slash sends the line as a message";
  EXPECT_EQ(error_of("/Save x"), "there is no command /Save" + unknown);
  EXPECT_EQ(error_of("/usr/bin is full"), "there is no command /usr/bin" + unknown);
  EXPECT_EQ(error_of("/"), "there is no command /" + unknown);
}

TEST(ChatCommand, HelpNamesThemAll) {
  const std::string help = chat_command_help();
  for (const char* name :
       {"/help", "/new", "/save FILE", "/load FILE", "/think off|high|max", "/stats", "/quit"}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace baleen
