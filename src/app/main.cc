// baleen: one program, a file per subcommand. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <cstdio>

#include "app/commands.h"
#include "app/options.h"
#include "app/process.h"
#include "app/version.h"
#include "base/lost_maps.h"
#include "base/standard_streams.h"
#include "log/log.h"
#include "rank_engine/followed_to_the_end.h"

namespace {

void run(int argc, char** argv) {
  baleen::Options program("baleen",
                          "Baleen runs DeepSeek-V4 and V4.1. `baleen COMMAND --help` says more of a command.",
                          baleen::version_text);
  baleen::add_commands(program);
  program.parse(argc, argv);
  baleen::check_maps();
  baleen::flush_checked(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  baleen::prepare_process();
  try {
    run(argc, argv);
    return 0;
  } catch (const baleen::FollowedToTheEnd&) {
    return 0;
  } catch (const baleen::UsageError& error) {
    baleen::log_line("baleen: {}", error.what());
    if (error.command.empty()) {
      baleen::log_line("`baleen --help` lists the commands, `baleen COMMAND --help` what a command takes");
    } else {
      baleen::log_line("`baleen {} --help` lists what it takes", error.command);
    }
    return 2;
  } catch (...) {
    return baleen::exit_status_of_exception();
  }
}
