// baleen: one program, a file per subcommand. Exit status: 0 done, 1 failed, 2 wrong usage.
#include <cstdio>

#include "app/bench.h"
#include "app/calibrate.h"
#include "app/chat.h"
#include "app/convert.h"
#include "app/data_commands.h"
#include "app/encode_chat.h"
#include "app/init.h"
#include "app/inspect.h"
#include "app/logits.h"
#include "app/options.h"
#include "app/parse_chat.h"
#include "app/perplexity.h"
#include "app/plan.h"
#include "app/process.h"
#include "app/program_documents.h"
#include "app/run.h"
#include "app/serve.h"
#include "app/simulate.h"
#include "app/tokenize.h"
#include "app/tokenizer_train.h"
#include "app/train.h"
#include "app/version.h"
#include "base/lost_maps.h"
#include "base/standard_streams.h"
#include "log/log.h"
#include "rank_engine/followed_to_the_end.h"

namespace {

void run(int argc, char** argv) {
  baleen::Options program("baleen",
                          "Baleen runs DeepSeek-V4. `baleen COMMAND --help` says more of a command.",
                          baleen::version_text);
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
  baleen::add_tokenizer_command(program);
  baleen::add_data_command(program);
  baleen::add_train_command(program);
  baleen::add_perplexity_command(program);
  baleen::add_logits_command(program);
  baleen::add_tokenize_command(program);
  baleen::add_encode_chat_command(program);
  baleen::add_parse_chat_command(program);
  baleen::add_document_commands(program);
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
    baleen::log_line("`baleen COMMAND --help` lists what a command takes");
    return 2;
  } catch (...) {
    return baleen::exit_status_of_exception();
  }
}
