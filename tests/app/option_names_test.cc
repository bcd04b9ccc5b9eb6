// Settings in sentences of the folders below get the names of options.
#include "app/option_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "app/command_description.h"
#include "app/commands.h"
#include "app/options.h"

namespace baleen {
namespace {

TEST(OptionNames, SettingsGetTheirOptions) {
  EXPECT_EQ(in_options("‹tensor parallelism› 3: 64 heads cannot be shared out evenly; 4 is near"),
            "--tp 3: 64 heads cannot be shared out evenly; 4 is near");
  EXPECT_EQ(in_options("try a smaller ‹context›, ‹chunk› or ‹sequences›"),
            "try a smaller --context, --chunk or --max-sequences");
}

TEST(OptionNames, AllElseStaysAsItIs) {
  for (const char* sentence : {"", "no setting", "‹made up›", "‹context", "context›", "›‹", "‹›"})
    EXPECT_EQ(in_options(sentence), sentence);
  EXPECT_EQ(in_options("file ‹a ‹context› b›"), "file ‹a --context b›");
}

void add_names(std::vector<std::string>& names, const CommandDescription& command) {
  for (const OptionDescription& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  for (const CommandDescription& inner : command.commands) add_names(names, inner);
}

TEST(OptionNames, EveryOptionIsACommands) {
  Options program("baleen", "A program", [](bool) { return "1"; });
  add_commands(program);
  std::vector<std::string> names;
  Options listing = program.command("list-names", "All names");
  listing.action([&](const CommandDescription& all) { add_names(names, all); });
  const char* words[] = {"baleen", "list-names"};
  program.parse(2, words);
  for (const auto& [setting, option] : option_names())
    EXPECT_NE(std::ranges::find(names, option), names.end()) << setting << ": " << option;
}

}  // namespace
}  // namespace baleen
