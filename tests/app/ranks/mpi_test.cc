// Ranks as processes that mpirun starts.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/file.h"
#include "tests/support/baleen_program.h"
#include "tests/support/http_client.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"

namespace baleen {
namespace {

using Words = std::vector<std::string>;

constexpr unsigned kSeconds = 300;  // ends what hangs

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Words mpirun(int num_ranks, const Words& arguments) {
  return Words{BALEEN_MPIRUN, "--allow-run-as-root",     "--oversubscribe",   "--bind-to", "none",
               "-n",          std::to_string(num_ranks), test::kBaleenProgram} +
         arguments;
}

const Words kRun{"run", "Once upon a time", "--max-tokens", "16", "--seed", "3", "--quiet", "--threads", "1"};

TEST(Mpi, TextOfOneRank) {
  const test::ProgramResult want = test::run_program(Words{test::kBaleenProgram} + kRun);
  ASSERT_EQ(want.status, 0) << want.err;
  for (const auto& [num_ranks, plan] :
       {std::pair{2, Words{}}, std::pair{2, Words{"--pp", "2"}}, std::pair{2, Words{"--cp", "2"}},
        std::pair{4, Words{"--dp", "2", "--pp", "2"}},
        std::pair{3, Words{"--ep", "3", "--redundant-experts", "2", "--expert-transport", "all-gather"}},
        std::pair{2, Words{"--dp", "2", "--prefill-groups", "1"}},
        std::pair{2, Words{"--dp", "2", "--dbo", "--dbo-prompt-rows", "2"}},
        std::pair{4, Words{"--balance-experts", "--balance-first", "2", "--balance-interval", "3",
                           "--balance-gain", "0"}}}) {
    const test::ProgramResult got = test::run_program(mpirun(num_ranks, kRun + plan), {.seconds = kSeconds});
    EXPECT_EQ(got.status, 0) << got.err;
    EXPECT_EQ(got.out, want.out);
  }
}

TEST(Mpi, AnotherNumberOfRanksIsRefused) {
  const test::ProgramResult got =
      test::run_program(mpirun(2, kRun + Words{"--ep", "4"}), {.seconds = kSeconds});
  EXPECT_NE(got.status, 0);
  EXPECT_NE(got.err.find("2 processes were started, but the plan has 4 ranks"), std::string::npos) << got.err;
}

TEST(Mpi, RanksThatDifferAreRefused) {
  // A rank of its own after the colon: the same program with another plan, or another model.
  const auto refused = [](const Words& first, const Words& second) {
    const Words both = mpirun(1, kRun + first) + Words{":", "-n", "1", test::kBaleenProgram} + kRun + second;
    const test::ProgramResult got = test::run_program(both, {.seconds = kSeconds});
    EXPECT_NE(got.status, 0);
    return got.err;
  };
  const std::string plans = refused({"--dp", "2"}, {"--pp", "2"});
  EXPECT_NE(plans.find("rank 1 has another plan"), std::string::npos) << plans;
  const std::string maps = refused({"--ep", "2"}, {"--ep", "2", "--balance-experts"});
  EXPECT_NE(maps.find("rank 1 has another plan"), std::string::npos) << maps;
  const std::string transports = refused({"--ep", "2"}, {"--ep", "2", "--expert-transport", "all-gather"});
  EXPECT_NE(transports.find("rank 1 has another plan"), std::string::npos) << transports;
  const test::TemporaryFolder folder;
  ASSERT_EQ(
      test::run_program({test::kBaleenProgram, "init", folder / "other", "--tokenizer", "models/stories"})
          .status,
      0);
  const std::string models = refused({"--dp", "2"}, {"--dp", "2", "--model", folder / "other"});
  EXPECT_NE(models.find("rank 1 has another checkpoint"), std::string::npos) << models;
}

TEST(Mpi, AServerWhoseGroupsHaveRoles) {
  std::string prompt;
  for (int word = 0; word < 150; ++word) prompt += " fox snail";
  const auto replies = [&prompt](const Words& command) {
    const test::ServerProcess server(command + Words{"--port", "0", "--quiet", "--threads", "2", "--context",
                                                     "4096", "--max-batch-tokens", "64", "--speculate", "1"},
                                     [] { ::alarm(kSeconds); });
    std::vector<std::string> texts;
    // The second time most of the prompt is found.
    for (int i = 0; i < 2; ++i) {
      const std::string request =
          R"({"model": "stories", "prompt": ")" + prompt + R"(", "max_tokens": 12, "temperature": 0})";
      const test::HttpReply reply = test::http_request(server.port(), "POST", "/v1/completions", request);
      EXPECT_EQ(reply.status, 200) << reply.body;
      const std::size_t begin = reply.body.find("\"text\"");
      texts.push_back(reply.body.substr(begin, reply.body.find("\",", begin) - begin));
    }
    texts.push_back(test::http_request(server.port(), "GET", "/metrics").body);
    return texts;
  };
  const std::vector<std::string> want = replies(Words{test::kBaleenProgram, "serve"});
  const std::vector<std::string> got = replies(mpirun(2, {"serve", "--dp", "2", "--prefill-groups", "1"}));
  EXPECT_EQ(got[0], want[0]);
  EXPECT_EQ(got[1], want[1]);
  EXPECT_NE(got[2].find("baleen_transferred_sequences_total 2\n"), std::string::npos) << got[2];
  EXPECT_NE(got[2].find("baleen_refused_transfers_total 0\n"), std::string::npos) << got[2];
}

/// The process of that rank below `mpirun`.
pid_t process_of_rank(pid_t mpirun, int rank) {
  const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stat(entry.path() / "stat"), environment(entry.path() / "environ");
    std::string line, variable;
    std::getline(stat, line);
    // "PID (NAME) STATE PARENT ..."
    const std::size_t behind_name = line.rfind(')');
    if (behind_name == std::string::npos || std::atoi(line.c_str() + behind_name + 4) != mpirun) continue;
    while (std::getline(environment, variable, '\0')) {
      if (variable == wanted) return static_cast<pid_t>(std::stoi(name));
    }
  }
  return -1;
}

/// For a child: its standard error goes to a file, and it does not outlive the test.
std::function<void()> errors_to(const std::string& path) {
  return [path] {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(file, STDERR_FILENO);
    ::alarm(kSeconds);
  };
}

/// A streamed reply that no end token ends, after its first event.
void begin_endless_reply(test::HttpConnection& stream) {
  stream.send("POST", "/v1/completions",
              R"({"model": "stories", "prompt": "Once", "max_tokens": 16000, "logit_bias": {"1": -100},)"
              R"( "stream": true})");
  ASSERT_EQ(stream.read_head().status, 200);
  ASSERT_TRUE(stream.next_event().has_value());
}

TEST(Mpi, AKilledRankEndsTheServiceAndIsNamed) {
  const test::TemporaryFolder folder;
  const std::string errors = folder / "errors";
  const test::ServerProcess server(
      mpirun(2, Words{"serve", "--port", "0", "--quiet", "--threads", "2", "--context", "4096", "--dp", "2",
                      "--balance-experts", "--balance-first", "1", "--balance-interval", "1",
                      "--balance-gain", "0"}),
      errors_to(errors));
  const std::string request = R"({"model": "stories", "prompt": "Once", "max_tokens": 4})";
  EXPECT_EQ(test::http_request(server.port(), "POST", "/v1/completions", request).status, 200);
  const std::string metrics = test::http_request(server.port(), "GET", "/metrics").body;
  EXPECT_NE(metrics.find("baleen_expert_rebalancings_total "), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("baleen_expert_rebalancings_total 0"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("baleen_expert_rebalancing_failures_total 0"), std::string::npos) << metrics;
  const pid_t follower = process_of_rank(server.id(), 1);
  ASSERT_GT(follower, 0);
  ::kill(follower, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(server.id(), &status, 0), server.id());
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const std::string text = read_text_file(errors);
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
}

/// What a stream under way, the launcher and its ranks do when `signal` reaches a rank.
void end_by(int rank, int signal) {
  const test::TemporaryFolder folder;
  const std::string errors = folder / "errors";
  const test::ServerProcess server(
      mpirun(2, Words{"serve", "--port", "0", "--quiet", "--threads", "2", "--context", "16384", "--dp", "2",
                      "--drain-seconds", "1"}),
      [&] {
        const int file = ::open(errors.c_str(), O_WRONLY | O_CREAT, 0600);
        ::dup2(file, STDERR_FILENO);
        ::alarm(kSeconds);
      });
  test::HttpConnection stream(server.port());
  ASSERT_NO_FATAL_FAILURE(begin_endless_reply(stream));
  const pid_t process = process_of_rank(server.id(), rank);
  ASSERT_GT(process, 0);
  ::kill(process, signal);
  std::string events;
  while (const std::optional<std::string> event = stream.next_event()) events += *event + "\n";
  EXPECT_NE(events.find("the server is shutting down"), std::string::npos) << events;
  int status = 0;
  ASSERT_EQ(::waitpid(server.id(), &status, 0), server.id());
  const std::string text = read_text_file(errors);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << "\n" << text;
  EXPECT_NE(text.find("shutting down"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 1 got a signal to end: all ranks end") != std::string::npos, rank == 1) << text;
}

TEST(Mpi, ASignalAtAnyRankEndsAllInOrder) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) end_by(1, signal);
  end_by(0, SIGTERM);
}

/// mpirun kills its ranks some seconds after it passed a signal on, however long --drain-seconds is.
TEST(Mpi, ASignalToMpirunLeavesRepliesTheirLastWords) {
  const test::TemporaryFolder folder;
  const std::string errors = folder / "errors";
  Words command = mpirun(2, Words{"serve", "--port", "0", "--quiet", "--threads", "2", "--context", "16384",
                                  "--dp", "2", "--drain-seconds", "200"});
  command.insert(command.begin() + 1, {"--mca", "odls_base_sigkill_timeout", "6"});
  const test::ServerProcess server(command, errors_to(errors));
  test::HttpConnection stream(server.port());
  ASSERT_NO_FATAL_FAILURE(begin_endless_reply(stream));
  const pid_t follower = process_of_rank(server.id(), 1);
  ASSERT_GT(follower, 0);
  ::kill(server.id(), SIGTERM);
  std::string events;
  while (const std::optional<std::string> event = stream.next_event()) events += *event + "\n";
  EXPECT_NE(events.find("the server is shutting down"), std::string::npos) << events.substr(0, 2000);
  int status = 0;
  ASSERT_EQ(::waitpid(server.id(), &status, 0), server.id());
  // Its own status for a signal, however its ranks ended.
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  const std::string text = read_text_file(errors);
  EXPECT_NE(text.find("mpirun ends this server and kills it after 6 s: replies have 3 s to end"),
            std::string::npos)
      << text;
}

TEST(Mpi, ARankThatIsAnotherProgramIsSaid) {
  const test::ProgramResult got =
      test::run_program(mpirun(1, kRun) + Words{":", "-n", "1", "true"}, {.seconds = kSeconds});
  EXPECT_NE(got.status, 0);
  EXPECT_NE(got.err.find("one of them is another program or has ended"), std::string::npos) << got.err;
}

}  // namespace
}  // namespace baleen
