// baleen: one program, a file per subcommand. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/bench.h"
#include "app/calibrate.h"
#include "app/chat.h"
#include "app/convert.h"
#include "app/encode_chat.h"
#include "app/init.h"
#include "app/inspect.h"
#include "app/logits.h"
#include "app/parse_chat.h"
#include "app/perplexity.h"
#include "app/plan.h"
#include "app/process.h"
#include "app/run.h"
#include "app/serve.h"
#include "app/simulate.h"
#include "app/tokenize.h"
#include "base/lost_maps.h"
#include "base/standard_streams.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Baleen runs DeepSeek-V4. `baleen COMMAND --help` says more of a command.", "baleen");
  app.require_subcommand(1);
  app.set_version_flag("--version", "baleen " BALEEN_VERSION);
  baleen::add_run_command(app);
  baleen::add_chat_command(app);
  baleen::add_serve_command(app);
  baleen::add_bench_command(app);
  baleen::add_calibrate_command(app);
  baleen::add_plan_command(app);
  baleen::add_simulate_command(app);
  baleen::add_inspect_command(app);
  baleen::add_init_command(app);
  baleen::add_convert_command(app);
  baleen::add_perplexity_command(app);
  baleen::add_logits_command(app);
  baleen::add_tokenize_command(app);
  baleen::add_encode_chat_command(app);
  baleen::add_parse_chat_command(app);
  try {
    app.parse(argc, argv);
    baleen::check_maps();
    baleen::flush_checked(stdout);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  baleen::prepare_process();
  try {
    return run(argc, argv);
  } catch (...) {
    return baleen::exit_status_of_exception();
  }
}
