// baleen: one program, a file per subcommand. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "app/bench.h"
#include "app/calibrate.h"
#include "app/chat.h"
#include "app/convert.h"
#include "app/encode_chat.h"
#include "app/init.h"
#include "app/inspect.h"
#include "app/logits.h"
#include "app/options.h"
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

void run(int argc, char** argv) {
  baleen::Options program("baleen",
                          "Baleen runs DeepSeek-V4. `baleen COMMAND --help` says more of a command.",
                          "baleen " BALEEN_VERSION);
  baleen::add_run_command(program);
  baleen::add_chat_command(program);
  baleen::add_serve_command(program);
  baleen::add_bench_command(program);
  baleen::add_calibrate_command(program);
  baleen::add_plan_command(program);
  baleen::add_simulate_command(program);
  baleen::add_inspect_command(program);
  baleen::add_init_command(program);
  baleen::add_convert_command(program);
  baleen::add_perplexity_command(program);
  baleen::add_logits_command(program);
  baleen::add_tokenize_command(program);
  baleen::add_encode_chat_command(program);
  baleen::add_parse_chat_command(program);
  program.parse(argc, argv);
  flush_output();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `baleen run | head` ends quietly
  try {
    run(argc, argv);
    return 0;
  } catch (const baleen::UsageError& error) {
    fmt::print(stderr, "baleen: {}\n`baleen COMMAND --help` lists what a command takes\n", error.what());
    return 2;
  } catch (const baleen::Error& error) {
    fmt::print(stderr, "baleen: {}\n", error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "baleen: out of memory; try a smaller --context or --chunk\n");
  } catch (const std::length_error&) {  // a size that no memory could hold
    fmt::print(stderr, "baleen: out of memory; try smaller numbers\n");
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "baleen: {}: {}\n", error.path1().string(), error.code().message());
  } catch (const std::system_error& error) {  // no thread, no socket, no lock
    fmt::print(stderr, "baleen: the system refused: {}\n", error.code().message());
  } catch (const std::exception& error) {
    fmt::print(stderr, "baleen: a defect of this program, please report it: {}\n", error.what());
  }
  return 1;
}
