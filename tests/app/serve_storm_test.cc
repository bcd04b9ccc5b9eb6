// Everything at once, generated from fixed seeds: mutated requests, clients that leave or do not read, large
// bodies without a key, bombs, a log that is not read. Whatever happens to each of them, the server lives,
// its memory stays within its bounds, and a small request gets its reply.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/support/baleen_program.h"
#include "tests/support/http_client.h"
#include "tests/support/server_process.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::HttpConnection;
using test::ServerProcess;

constexpr std::int64_t kBodiesBytes = 32 << 20;

ServerProcess start(const std::function<void()>& prepare) {
  return ServerProcess({test::kBaleenProgram, "serve", "--model", "models/stories", "--port", "0",
                        "--threads", "1", "--context", "8192", "--log-text", "--max-queue", "16",
                        "--max-bodies-bytes", std::to_string(kBodiesBytes), "--speculate", "2"},
                       prepare);
}

/// Kilobytes of a line of /proc/PID/status.
std::int64_t kilobytes(const ServerProcess& server, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(server.id()) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  return -1;
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

/// Requests of every kind, valid before they are mutated.
std::vector<std::string> seeds() {
  const Json message = {{"role", "user"}, {"content", "Tell me a story about a snail & a 🦊."}};
  const Json schema = {{"type", "object"},
                       {"properties",
                        {{"name", {{"type", "string"}, {"pattern", "^[a-z]{1,9}$"}}},
                         {"age", {{"type", "integer"}, {"minimum", 3}}}}},
                       {"required", {"name"}}};
  const Json tool = {{"type", "function"}, {"function", {{"name", "look"}, {"parameters", schema}}}};
  Json chat = {{"messages", {message}}, {"max_tokens", 3}, {"stream", true}};
  Json enforced = chat;
  enforced["tools"] = {tool};
  enforced["tool_choice"] = "required";
  Json formatted = chat;
  formatted["response_format"] = {{"type", "json_schema"},
                                  {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  return {
      post("/v1/chat/completions", chat.dump()),
      post("/v1/chat/completions", enforced.dump()),
      post("/v1/chat/completions", formatted.dump()),
      post("/v1/completions", Json{{"prompt", "Once"}, {"max_tokens", 3}, {"n", 2}, {"logprobs", 2}}.dump()),
      post("/v1/messages", Json{{"model", "stories"}, {"messages", {message}}, {"max_tokens", 3}}.dump()),
      post("/v1/responses", Json{{"input", "hi"}, {"max_output_tokens", 3}, {"stream", true}}.dump()),
      post("/tokenize", Json{{"messages", {message}}}.dump()),
      post("/detokenize", Json{{"tokens", {5, 6, 7}}}.dump()),
      "GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n",
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "f\r\n{\"prompt\": \"ab\"}\r\n0\r\n\r\n"};
}

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  static const std::vector<std::string> kPieces = {"\r\n",
                                                   "{",
                                                   "[[[[[[[[",
                                                   "]",
                                                   "\"",
                                                   "null",
                                                   "-1",
                                                   "1e999",
                                                   "99999999999999999999",
                                                   "\\ud800",
                                                   "\xFF",
                                                   "\x00\x01",
                                                   "<|DSML|tool_calls>",
                                                   "<｜User｜>",
                                                   "Content-Length: 5\r\n",
                                                   "Transfer-Encoding: chunked\r\n",
                                                   "$ref",
                                                   "\x1B[2J"};
  for (std::size_t round = 0, rounds = 1 + below(4); round < rounds && !text.empty(); ++round) {
    const std::size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(20));
        break;
      case 2:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 3:
        text.insert(at, text.substr(at, 1 + below(40)));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

/// Sends and leaves: at once, or after some bytes of an answer if any come soon. What comes does not matter.
void send_and_leave(std::uint16_t port, const std::string& bytes, std::size_t reads) {
  try {
    HttpConnection connection(port, /*patience_ms=*/200);
    connection.send_raw(bytes);
    for (std::size_t i = 0; i < reads && connection.read_some(); ++i) continue;
  } catch (const std::exception&) {
    // The server may close at any byte.
  }
}

TEST(ServeStorm, NothingEndsTheServer) {
  int unread[2];
  ASSERT_EQ(::pipe(unread), 0);
  ServerProcess server = start([&] { ::dup2(unread[1], STDERR_FILENO); });
  const std::uint16_t port = server.port();
  const std::vector<std::string> valid = seeds();
  const std::int64_t resident_before = kilobytes(server, "VmRSS");

  std::vector<std::unique_ptr<HttpConnection>> lasting;  // slow readers, and bodies that never end
  for (int i = 0; i < 8; ++i) {
    lasting.push_back(std::make_unique<HttpConnection>(port));
    lasting.back()->send("GET", "/stats?stream=1&interval=0.01", "");
    lasting.push_back(std::make_unique<HttpConnection>(port));
    lasting.back()->send_raw(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n" +
        std::string(300'000, 'x'));
  }
  std::vector<std::thread> clients;
  for (unsigned seed = 0; seed < 4; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 100; ++i) {
        const std::string& request = valid[random() % valid.size()];
        send_and_leave(port, random() % 5 == 0 ? request : mutated(request, random), random() % 3);
      }
    });
  }
  clients.emplace_back([&] {
    for (int i = 0; i < 6; ++i) {
      send_and_leave(port, post("/tokenize", Json{{"prompt", std::string(3'000'000, 'a')}}.dump()), 1);
      send_and_leave(port, post("/tokenize", std::string(100'000, '[')), 1);
    }
  });
  for (std::thread& client : clients) client.join();

  const test::HttpReply reply = test::http_request(
      port, "POST", "/v1/chat/completions",
      Json{{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 2}}.dump());
  EXPECT_EQ(reply.status, 200) << reply.body;
  // Beside the bodies: JSON trees and tokens of the few that are prepared at a time.
  EXPECT_LT(kilobytes(server, "VmHWM") - resident_before, (kBodiesBytes >> 10) + 512 * 1024);
  lasting.clear();
  EXPECT_EQ(server.end(SIGTERM), 0);
  ::close(unread[0]), ::close(unread[1]);
}

}  // namespace
}  // namespace baleen
