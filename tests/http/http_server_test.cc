// What a client sees: answers, their order and framing, methods, errors, draining.
#include "http/http_server.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "tests/http/running_server.h"

namespace baleen {
namespace {

constexpr const char* kGet = "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HttpServer, AnswersOnAConnectionKeptOpen) {
  RunningServer server({}, echo);
  RawClient client = server.connect();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(kGet));
    const RawClient::Response response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "GET /a?b ");
    EXPECT_EQ(response.head.find("Connection:"), std::string::npos);
    EXPECT_NE(response.head.find("Content-Type: text/plain\r\n"), std::string::npos);
  }
  EXPECT_EQ(server->stats().requests, 3);
  EXPECT_EQ(server->stats().accepted, 1);
}

TEST(HttpServer, ClosesWhenAsked) {
  RunningServer server({}, echo);
  for (const char* request :
       {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"}) {
    RawClient client = server.connect();
    client.send(request);
    const RawClient::Response response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_NE(response.head.find("Connection: close\r\n"), std::string::npos);
    EXPECT_TRUE(client.read_to_end());
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  std::atomic<int> num_waiting{0};
  HttpServer* running = nullptr;
  RunningServer server({}, [&](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
    ++num_waiting;
    running->after(request.path == "/0" ? 0.05 : 0, [&num_waiting, request, exchange] {
      --num_waiting;
      echo(request, exchange);
    });
    EXPECT_EQ(num_waiting, 1) << "one request at a time";
  });
  running = server.operator->();
  RawClient client = server.connect();
  std::string all;
  for (int i = 0; i < 20; ++i) {
    all += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
  }
  client.send(all);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.read_response().body, "POST /" + std::to_string(i) + "? hi");
}

TEST(HttpServer, ManyRequestsAheadDoNotGrowMemory) {
  RunningServer server({.max_header_bytes = 256}, echo);
  RawClient client = server.connect();
  std::string all;
  for (int i = 0; i < 1000; ++i) all += kGet;
  client.send(all);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.read_response().body, "GET /a?b ");
}

TEST(HttpServer, HeadHasTheHeadOnly) {
  RunningServer server({}, echo);
  RawClient client = server.connect();
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(client.read_response(true).head.find("Content-Length: 9\r\n"), std::string::npos);
  client.send(kGet);  // the connection is still in step
  EXPECT_EQ(client.read_response().body, "GET /a?b ");
}

TEST(HttpServer, OptionsOfTheServerAndOfAPath) {
  RunningServer server({}, echo);
  RawClient client = server.connect();
  client.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
  const RawClient::Response response = client.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.head.find("Allow: "), std::string::npos);
  client.send("OPTIONS /v1 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "OPTIONS /v1? ");
}

TEST(HttpServer, ContinuesWhenTheClientWaits) {
  RunningServer server({}, echo);
  RawClient client = server.connect();
  client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  ASSERT_TRUE(client.read_until("100 Continue\r\n\r\n"));
  EXPECT_EQ(client.read_response(true).status, 100);
  client.send("abc");
  EXPECT_EQ(client.read_response().body, "POST /? abc");
}

TEST(HttpServer, RefusesInsteadOfContinuingWithABodyTooLarge) {
  RunningServer server({.max_body_bytes = 10}, echo);
  RawClient client = server.connect();
  client.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 413);
  EXPECT_TRUE(client.read_to_end());
}

TEST(HttpServer, BadRequestsGetAnErrorAndTheConnectionCloses) {
  RunningServer server({}, echo);
  RawClient client = server.connect();
  client.send(std::string(kGet) +
              "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200);
  const RawClient::Response response = client.read_response();
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.head.find("Connection: close\r\n"), std::string::npos);
  EXPECT_NE(response.head.find("Content-Type: application/json\r\n"), std::string::npos);
  EXPECT_EQ(response.body.find(R"({"error": {"message": ")"), 0u);
  EXPECT_NE(response.body.find(R"("type": "invalid_request_error", "code": "bad_request"}})"),
            std::string::npos);
  EXPECT_TRUE(client.read_to_end());
  EXPECT_EQ(server->stats().rejected, 1);
}

TEST(HttpServer, TheOwnerMayWriteItsErrors) {
  RunningServer server(
      {.max_body_bytes = 10,
       .write_error =
           [](const HttpError& error) {
             return HttpResponse{error.status, "text/plain", {}, error.path + " " + error.code};
           }},
      echo);
  RawClient client = server.connect();
  client.send("POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "/v1/x body_too_large");
}

TEST(HttpServer, HandlersThatThrowOrForgetGiveAnError) {
  RunningServer server({}, [](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/throws") throw std::runtime_error("secret");
    if (request.path == "/breaks") {
      exchange->begin_events({});
      exchange->send("data: 1\n\n");
    }
  });
  for (const char* path : {"/throws", "/forgets"}) {
    RawClient client = server.connect();
    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const RawClient::Response response = client.read_response();
    EXPECT_EQ(response.status, 500);
    EXPECT_EQ(response.body.find("secret"), std::string::npos);
    EXPECT_TRUE(client.read_to_end());
  }
  RawClient client = server.connect();
  client.send("GET /breaks HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(client.read_to_end());
  EXPECT_EQ(client.seen().find("0\r\n\r\n"), std::string::npos) << "a cut stream must not look whole";
}

TEST(HttpServer, HandlersCannotBreakTheFraming) {
  RunningServer server({}, [](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(
        {200, "text/plain", {{"Content-Length", "99"}, {"A", "b\r\nEvil: 1"}, {"Good", "1"}}, "ok"});
  });
  RawClient client = server.connect();
  client.send(kGet);
  const RawClient::Response response = client.read_response();
  EXPECT_EQ(response.body, "ok");
  EXPECT_EQ(response.head.find("Evil"), std::string::npos);
  EXPECT_NE(response.head.find("Good: 1\r\n"), std::string::npos);
}

TEST(HttpServer, NoContentHasNoBody) {
  RunningServer server({}, [](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({204, "", {}, ""});
  });
  RawClient client = server.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(kGet);
    const RawClient::Response response = client.read_response(true);
    EXPECT_EQ(response.status, 204);
    EXPECT_EQ(response.head.find("Content-"), std::string::npos);
  }
}

TEST(HttpServer, LargeAnswersArriveWhole) {
  const std::string large(20 << 20, 'x');
  RunningServer server({}, [&](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({200, "text/plain", {}, large});
  });
  RawClient client = server.connect();
  client.send(kGet);
  EXPECT_EQ(client.read_response().body.size(), large.size());
}

TEST(HttpServer, AnswersAClientThatClosedItsSide) {
  RunningServer server({}, echo);
  RawClient client = server.connect();
  client.send(kGet);
  client.shut_sending();
  EXPECT_EQ(client.read_response().body, "GET /a?b ");
  EXPECT_TRUE(client.read_to_end());
}

TEST(HttpServer, DrainsAndReturns) {
  std::shared_ptr<Exchange> held;
  std::atomic<bool> begun{false};
  RunningServer server({}, [&](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/idle") return echo(request, exchange);
    exchange->begin_events({});
    held = exchange;
    begun = true;
  });
  RawClient idle = server.connect(), half = server.connect(), streaming = server.connect();
  idle.send("GET /idle HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(idle.read_response().status, 200);
  streaming.send(kGet);
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  half.send("GET /idle HT");
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // lets the half request arrive; either way is right
  server->drain();
  // Requests that come now still find the handler, and their connections end with the answer.
  half.send("TP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(half.read_response().head.find("Connection: close"), std::string::npos);
  idle.send("GET /idle HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(idle.read_response().head.find("Connection: close"), std::string::npos);
  RawClient late = server.connect();
  late.send("GET /idle HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(late.read_response().status, 200);
  EXPECT_TRUE(held->send("data: last\n\n"));
  held->end();
  EXPECT_EQ(streaming.read_response().body, "data: last\n\n");
  idle.close(), half.close(), streaming.close();
  server.join();  // `run` came back by itself
  EXPECT_EQ(server->stats().connections, 0);
}

TEST(HttpServer, ADrainWaitsForNoStreamThatGoesOnForEver) {
  std::shared_ptr<Exchange> held;
  std::atomic<bool> begun{false};
  RunningServer server({}, [&](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
    exchange->do_not_await();
    exchange->begin_events({});
    held = exchange;
    begun = true;
  });
  RawClient watching = server.connect();
  watching.send(kGet);
  ASSERT_TRUE(eventually([&] { return begun.load() && server->stats().owed == 0; }));
  server->drain();
  server.join();
}

TEST(HttpServer, AHeadMayBeRefusedBeforeItsBodyIsRead) {
  std::atomic<int> num_handled{0};
  HttpServerOptions options;
  options.check_head = [](const HttpRequest& head) -> std::optional<HttpResponse> {
    if (head.path == "/open") return std::nullopt;
    return HttpResponse{.status = 401, .body = "no key"};
  };
  RunningServer server(options, [&](HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
    ++num_handled;
    echo(std::move(request), exchange);
  });
  RawClient client = server.connect();
  client.send("POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nbegin");
  const RawClient::Response refused = client.read_response();
  EXPECT_EQ(refused.status, 401);
  EXPECT_NE(refused.head.find("Connection: close"), std::string::npos);
  EXPECT_EQ(server->stats().body_bytes, 0);

  RawClient expecting = server.connect();
  expecting.send("POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(expecting.read_response().status, 401) << "and no 100 before it";

  // A request that has come whole leaves the connection as it is.
  RawClient whole = server.connect();
  for (int i = 0; i < 2; ++i) {
    whole.send("GET /closed HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(whole.read_response().status, 401);
  }
  whole.send("GET /open HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(whole.read_response().status, 200);
  EXPECT_EQ(num_handled, 1);
}

TEST(HttpServer, SaysWhyItCannotListen) {
  HttpServer first({}, echo);
  try {
    HttpServer second({.port = first.port()}, echo);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is another server running there"), std::string::npos);
  }
  try {
    HttpServer elsewhere({.host = "192.0.2.1"}, echo);  // kept for documents: no machine has it
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected an address of this machine"), std::string::npos);
  }
  EXPECT_THROW(HttpServer({.host = "not an address"}, echo), Error);
}

TEST(HttpServer, StopsBeforeItRunsAndIsForgottenByLateAnswers) {
  std::shared_ptr<Exchange> held;
  std::atomic<bool> asked{false}, gone{false};
  {
    RunningServer server({}, [&](HttpRequest, const std::shared_ptr<Exchange>& exchange) {
      exchange->on_gone([&] { gone = true; });
      held = exchange;
      asked = true;
    });
    RawClient client = server.connect();
    client.send(kGet);
    ASSERT_TRUE(eventually([&] { return asked.load(); }));
  }
  EXPECT_TRUE(gone);
  held->begin_events({});
  EXPECT_FALSE(held->send("data\n\n"));
  held->respond({});
  held.reset();

  HttpServer never({}, echo);
  never.stop();
  never.run();
}

}  // namespace
}  // namespace baleen
