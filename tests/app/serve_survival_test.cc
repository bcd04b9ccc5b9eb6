// `baleen serve` when its surroundings fail: a log that cannot be written, weights cut short, no memory; who
// may ask; how it ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/support/baleen_program.h"
#include "tests/support/http_client.h"
#include "tests/support/server_process.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::HttpConnection;
using test::HttpReply;
using test::ServerProcess;

std::vector<std::string> serve(const std::vector<std::string>& more = {},
                               const std::string& model = "models/stories") {
  std::vector<std::string> command = {test::kBaleenProgram, "serve", "--model",   model,  "--port", "0",
                                      "--threads",          "1",     "--context", "16384"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

Json small_request() {
  return {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 2}, {"temperature", 0}};
}

/// A reply of that many tokens: the end token is forbidden.
Json stream_request(int tokens) {
  Json request = small_request();
  request["stream"] = true;
  request["max_tokens"] = tokens;
  request["logit_bias"] = {{"1", -100}};
  return request;
}

HttpReply ask(const ServerProcess& server, const Json& request) {
  return test::http_request(server.port(), "POST", "/v1/chat/completions", request.dump());
}

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

double metric(const ServerProcess& server, const std::string& name) {
  const std::string page = test::http_request(server.port(), "GET", "/metrics").body;
  const std::size_t at = page.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(page.substr(at + name.size() + 2));
}

/// Standard error of the server: a file that can be read meanwhile.
struct ErrorFile {
  const test::TemporaryFolder folder;
  const std::string path = folder / "err";
  void take() const { ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO); }
};

// ---- the log ----

TEST(ServeLog, NoLogEverStopsIt) {
  int unread[2];
  ASSERT_EQ(::pipe(unread), 0);
  const std::vector<std::function<void()>> outputs = {
      [] { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); },
      [] { ::close(STDERR_FILENO); },
      [] {
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(126);
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[0]), ::close(ends[1]);
      },
      [&] { ::dup2(unread[1], STDERR_FILENO); },
  };
  for (const auto& output : outputs) {
    ServerProcess server(serve({"--log-text"}), output);
    // More than a pipe and the queue hold.
    Json request = small_request();
    request["messages"][0]["content"] = std::string(12'000, 'x');
    request["max_tokens"] = 1;
    request["model"] = "none, so it is refused once it is logged";
    for (int i = 0; i < 120; ++i) ask(server, request);
    EXPECT_EQ(ask(server, small_request()).status, 200);
    EXPECT_GT(metric(server, "baleen_log_lost_lines_total"), 0);
    EXPECT_EQ(server.end(SIGTERM), 0);
  }
  ::close(unread[0]), ::close(unread[1]);
}

TEST(ServeLog, TextFromOutsideForgesNothing) {
  const ErrorFile err;
  {
    ServerProcess server(serve({"--log-text"}), [&] { err.take(); });
    const HttpReply refused =
        test::http_request(server.port(), "POST", "/v1/completions",
                           "{\"prompt\": \"\x1B[2J\n2026-01-01 00:00:00 200 forged\n\x1B]0;title\x07\"}");
    EXPECT_EQ(refused.status, 400) << "control characters in a JSON string";
    EXPECT_EQ(server.end(SIGTERM), 0);
  }
  const std::string text = text_of(err.path);
  EXPECT_NE(text.find("\\x1B[2J\\n2026"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
  EXPECT_EQ(text.find("\n2026-01-01"), std::string::npos);
}

TEST(ServeLog, AClosedStandardOutputIsNoReasonNotToServe) {
  // The port is said on standard output, so it is found by trying: this one only shows that the program goes
  // on.
  const ErrorFile err;
  ServerProcess first(serve());  // knows a port that is free once it has ended
  const std::uint16_t port = first.port();
  EXPECT_EQ(first.end(SIGTERM), 0);
  std::vector<std::string> command = serve({"--quiet"});
  command[5] = std::to_string(port);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
    err.take();
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  bool answered = false;
  for (int i = 0; i < 3000 && !answered; ++i) {
    try {
      answered = test::http_request(port, "GET", "/health").status == 200;
    } catch (const std::exception&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_TRUE(answered) << text_of(err.path);
  ::kill(child, SIGTERM);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text_of(err.path);
}

// ---- weights and memory ----

TEST(ServeSurvival, WeightsCutShortFailTheRequestsAndEndItInOrder) {
  const test::TemporaryFolder folder;
  const std::filesystem::path model = folder / "model";
  std::filesystem::copy("models/stories", model);
  const ErrorFile err;
  ServerProcess server(serve({"--quiet"}, model), [&] { err.take(); });
  HttpConnection connection(server.port());
  connection.send("POST", "/v1/chat/completions", stream_request(10'000).dump());
  ASSERT_EQ(connection.read_head().status, 200);
  ASSERT_TRUE(connection.next_event());
  std::filesystem::resize_file(model / "model.safetensors", 4096);
  std::string events;
  while (const auto event = connection.next_event()) events += *event + "\n";
  EXPECT_NE(events.find("model.safetensors"), std::string::npos) << events.substr(0, 1000);
  EXPECT_EQ(server.end(0), 1);
  EXPECT_NE(text_of(err.path).find("model.safetensors"), std::string::npos) << text_of(err.path);
}

TEST(ServeSurvival, WithoutMemoryARequestFailsAndTheServerGoesOn) {
  ServerProcess server(serve({"--quiet"}));
  EXPECT_EQ(ask(server, small_request()).status, 200);
  std::ifstream statm("/proc/" + std::to_string(server.id()) + "/statm");
  std::uint64_t pages = 0;
  statm >> pages;
  rlimit before{};
  ASSERT_EQ(::prlimit(server.id(), RLIMIT_AS, nullptr, &before), 0);
  // Sizes for which memory ends in different places: while the body is read, parsed, tokenised.
  for (const std::uint64_t spare : {4U << 20, 16U << 20, 48U << 20}) {
    const rlimit tight{.rlim_cur = pages * 4096 + spare, .rlim_max = before.rlim_max};
    ASSERT_EQ(::prlimit(server.id(), RLIMIT_AS, &tight, nullptr), 0);
    for (const std::size_t size : {1U << 20, 4U << 20, 12U << 20}) {
      const std::string body = Json{{"prompt", std::string(size, 'a')}}.dump();
      int status = 0;
      try {
        status = test::http_request(server.port(), "POST", "/tokenize", body).status;
      } catch (const std::exception&) {
        // Cut off while the body was still coming.
      }
      EXPECT_TRUE(status == 0 || status == 200 || status == 400 || status == 500 || status == 503) << status;
    }
    ASSERT_EQ(::prlimit(server.id(), RLIMIT_AS, &before, nullptr), 0);
    EXPECT_EQ(ask(server, small_request()).status, 200);
  }
  EXPECT_EQ(server.end(SIGTERM), 0);
}

// ---- who may ask ----

TEST(ServeAccess, NamesAndOriginsAreCheckedAtTheDoor) {
  ServerProcess server(
      serve({"--quiet", "--allowed-host", "fox.example", "--cors-origin", "https://chat.example"}));
  const auto status = [&](const std::string& host, const std::string& origin) {
    HttpConnection connection(server.port());
    std::string head = "GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n";
    if (!origin.empty()) head += "Origin: " + origin + "\r\n";
    connection.send_raw(head + "\r\n");
    return connection.read_head();
  };
  EXPECT_EQ(status("localhost", "").status, 200);
  EXPECT_EQ(status("fox.example:80", "").status, 200);
  EXPECT_EQ(status("evil.example", "").status, 403);
  EXPECT_EQ(status("evil.example", "http://evil.example").status, 403);
  EXPECT_EQ(status("localhost", "https://evil.example").status, 403);
  const HttpReply allowed = status("localhost", "https://chat.example");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_NE(allowed.head.find("Access-Control-Allow-Origin: https://chat.example\r\n"), std::string::npos);

  const HttpReply preflight =
      test::http_request(server.port(), "OPTIONS", "/v1/chat/completions", "",
                         {{"Origin", "https://chat.example"},
                          {"Access-Control-Request-Method", "POST"},
                          {"Access-Control-Request-Headers", "authorization,content-type"}});
  EXPECT_EQ(preflight.status, 204);
  for (const char* header :
       {"Access-Control-Allow-Origin: https://chat.example\r\n",
        "Access-Control-Allow-Methods: POST, OPTIONS\r\n",
        "Access-Control-Allow-Headers: authorization,content-type\r\n", "Access-Control-Max-Age: 600\r\n"})
    EXPECT_NE(preflight.head.find(header), std::string::npos) << header << preflight.head;
  HttpConnection streaming(server.port());
  streaming.send("POST", "/v1/chat/completions", stream_request(2).dump(),
                 {{"Origin", "https://chat.example"}});
  EXPECT_NE(streaming.read_head().head.find("Access-Control-Allow-Origin"), std::string::npos);
}

TEST(ServeAccess, AKeyIsAskedForBeforeTheBodyIsRead) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "keys") << "secret\n";
  ServerProcess server(serve({"--quiet", "--api-key-file", folder / "keys"}));
  std::vector<std::unique_ptr<HttpConnection>> keyless;
  for (int i = 0; i < 20; ++i) {
    keyless.push_back(std::make_unique<HttpConnection>(server.port()));
    keyless.back()->send_raw(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n{");
    EXPECT_EQ(keyless.back()->read_head().status, 401);  // though the body never comes
  }
  const HttpReply metrics =
      test::http_request(server.port(), "GET", "/metrics", "", {{"x-api-key", "secret"}});
  EXPECT_NE(metrics.body.find("\nbaleen_http_body_bytes 0\n"), std::string::npos);
}

TEST(ServeAccess, EveryOriginWithoutKeysIsRefusedAtTheStart) {
  EXPECT_THROW(ServerProcess(serve({"--cors-origin", "*"})), std::exception);
}

// ---- what requests cost ----

TEST(ServeAdmission, BombsAreRefusedWithASentence) {
  ServerProcess server(serve({"--quiet", "--max-body-bytes", "20000000"}));
  Json properties = Json::object(), required = Json::array();
  for (int i = 0; i < 50'000; ++i) {
    properties["property" + std::to_string(i)] = {{"type", "string"}};
    required.push_back("property" + std::to_string(i));
  }
  Json patterns = Json::object();
  for (int i = 0; i < 40; ++i)
    patterns["p" + std::to_string(i)] = {{"type", "string"},
                                         {"pattern", "(a|b)*a(a|b){" + std::to_string(9 + i % 2) + "}"}};
  for (const Json& properties_of_bomb : {properties, patterns}) {
    Json request = small_request();
    request["response_format"] = {
        {"type", "json_schema"},
        {"json_schema",
         {{"name", "bomb"}, {"schema", {{"type", "object"}, {"properties", properties_of_bomb}}}}}};
    if (properties_of_bomb.size() > 100) {
      request["response_format"]["json_schema"]["schema"]["required"] = required;
    } else {  // a format that is not strict is held as far as that is possible, and the reply says how far
      const HttpReply free = ask(server, request);
      EXPECT_EQ(free.status, 200) << free.body;
      EXPECT_NE(free.head.find("x-baleen-unenforced: response_format ("), std::string::npos) << free.head;
    }
    request["response_format"]["json_schema"]["strict"] = true;
    const HttpReply reply = ask(server, request);
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_GT(Json::parse(reply.body)["error"]["message"].get<std::string>().size(), 20U);
  }
  const HttpReply word = test::http_request(server.port(), "POST", "/tokenize",
                                            Json{{"prompt", std::string(16'000'000, 'a')}}.dump());
  EXPECT_EQ(word.status, 400);
  EXPECT_NE(word.body.find("too_much_work"), std::string::npos) << word.body;
  EXPECT_EQ(ask(server, small_request()).status, 200);
}

// ---- the end ----

TEST(ServeEnd, WhileItDrainsItSaysSo) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    ServerProcess server(serve({"--quiet"}), [] { ::signal(SIGHUP, SIG_DFL); });
    HttpConnection streaming(server.port()), watching(server.port());
    streaming.send("POST", "/v1/chat/completions", stream_request(3000).dump());
    ASSERT_EQ(streaming.read_head().status, 200);
    ASSERT_TRUE(streaming.next_event());
    watching.send("GET", "/stats?stream=1&interval=3600", "");
    ASSERT_EQ(watching.read_head().status, 200);
    server.signal(signal);
    bool draining = false;
    for (int i = 0; i < 2000 && !draining; ++i) {
      draining = test::http_request(server.port(), "GET", "/ready").status == 503;
      if (!draining) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(draining);
    EXPECT_EQ(test::http_request(server.port(), "GET", "/health").status, 200);
    const HttpReply refused = ask(server, small_request());
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.head.find("Retry-After"), std::string::npos);
    std::string last;
    while (const auto event = streaming.next_event()) last = *event;
    EXPECT_EQ(last, "[DONE]");
    while (watching.next_event()) continue;  // ended, though its next figures were an hour away
    EXPECT_EQ(server.end(0), 0);
  }
}

TEST(ServeEnd, UnderNohupAHangUpIsIgnored) {
  ServerProcess server(serve({"--quiet"}), [] { ::signal(SIGHUP, SIG_IGN); });
  server.signal(SIGHUP);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask(server, small_request()).status, 200);
    EXPECT_EQ(test::http_request(server.port(), "GET", "/ready").status, 200);
  }
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServeEnd, AnUnreadStreamOfStatisticsHoldsNothingUp) {
  ServerProcess server(serve({"--quiet", "--drain-seconds", "3600"}));
  std::vector<std::unique_ptr<HttpConnection>> unread;
  for (int i = 0; i < 4; ++i) {
    unread.push_back(std::make_unique<HttpConnection>(server.port()));
    unread.back()->send("GET", "/stats?stream=1&interval=0.01", "");
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(server, small_request()).status, 200);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

}  // namespace
}  // namespace baleen
