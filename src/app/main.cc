// baleen: one program, a file per subcommand. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

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
#include "app/run.h"
#include "app/serve.h"
#include "app/simulate.h"
#include "app/tokenize.h"
#include "base/error.h"

namespace {

/// What a command printed may still lie in a buffer: only now a full disk shows.
void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    baleen::fail("standard output: writing failed; is the disk full?");
  }
}

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
    flush_output();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `baleen run | head` ends quietly
  try {
    return run(argc, argv);
  } catch (const baleen::Error& error) {
    fmt::print(stderr, "baleen: {}\n", error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "baleen: out of memory; try a smaller --context or --chunk\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "baleen: unexpected: {}\n", error.what());
  }
  return 1;
}
