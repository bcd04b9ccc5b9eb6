#include "http/request_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace baleen {
namespace {

using State = RequestReader::State;
constexpr RequestLimits kLimits{.max_header_bytes = 512, .max_body_bytes = 64};

RequestReader read(std::string_view bytes, RequestLimits limits = kLimits) {
  RequestReader reader(limits);
  reader.feed(bytes);
  return reader;
}

/// 0 when the request is taken or wants more.
int refusal(std::string_view bytes) {
  const RequestReader reader = read(bytes);
  return reader.state() == State::kRefused ? reader.error().status : 0;
}

std::string with_headers(std::string_view headers, std::string_view body = "") {
  return fmt::format("POST /v1 HTTP/1.1\r\nHost: x\r\n{}\r\n{}", headers, body);
}

TEST(RequestReader, ReadsARequestWithABody) {
  RequestReader reader(kLimits);
  const std::string_view bytes =
      "POST /a%20b?q=1 HTTP/1.1\r\nHost: x\r\nX-Y:  z \r\nContent-Length: 3\r\n\r\nabcGET /";
  EXPECT_EQ(reader.feed(bytes), bytes.size() - 5);
  ASSERT_EQ(reader.state(), State::kComplete);
  EXPECT_EQ(reader.request().method, "POST");
  EXPECT_EQ(reader.request().path, "/a b");
  EXPECT_EQ(reader.request().query, "q=1");
  EXPECT_EQ(reader.request().header("x-y"), "z");
  EXPECT_EQ(reader.request().header("absent"), "");
  EXPECT_EQ(reader.request().body, "abc");
  EXPECT_TRUE(reader.keep_alive());
}

TEST(RequestReader, ReadsChunksAndDropsTrailers) {
  RequestReader reader(kLimits);
  const std::string bytes = with_headers("Transfer-Encoding: Chunked\r\n",
                                         "3\r\nabc\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nHost: evil\r\n\r\n");
  EXPECT_EQ(reader.feed(bytes + "GET"), bytes.size());
  ASSERT_EQ(reader.state(), State::kComplete);
  EXPECT_EQ(reader.request().body, "abc0123456789");
  EXPECT_EQ(reader.request().headers.size(), 2u);
}

TEST(RequestReader, KnowsWhetherTheConnectionStaysOpen) {
  EXPECT_TRUE(read("GET / HTTP/1.1\r\nHost: x\r\n\r\n").keep_alive());
  EXPECT_FALSE(read("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").keep_alive());
  EXPECT_FALSE(read("GET / HTTP/1.0\r\n\r\n").keep_alive());
  EXPECT_TRUE(read("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive());
}

TEST(RequestReader, SkipsOneEmptyLineBeforeARequest) {
  EXPECT_EQ(read("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n").state(), State::kComplete);
  EXPECT_EQ(refusal("\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), 400);
}

TEST(RequestReader, RefusesSmuggling) {
  for (const char* headers : {
           "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
           "Content-Length: 3\r\nContent-Length: 4\r\n",
           "Content-Length: 3\r\nContent-Length: 3\r\n",
           "Content-Length: 3, 3\r\n",
           "Content-Length: +3\r\n",
           "Content-Length: -3\r\n",
           "Content-Length: 0x3\r\n",
           "Content-Length: 3 \t4\r\n",
           "Content-Length:\r\n",
           "Content-Length: 99999999999999999999999\r\n",
           "Transfer-Encoding: identity\r\n",
           "Transfer-Encoding: gzip, chunked\r\n",
           "Transfer-Encoding: chunked, identity\r\n",
           "Transfer-Encoding: xchunked\r\n",
           "Transfer-Encoding:\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
           "Transfer-Encoding : chunked\r\n",
           "Transfer-Encoding\r\n : chunked\r\n",
           "Content-Length : 3\r\n",
           " Content-Length: 3\r\n",
           "X: a\r\n b\r\n",
           "X: a\r\n\tb\r\n",
           "X: a\nContent-Length: 3\r\n",
           "X: a\rContent-Length: 3\r\n",
           "X: a\r\r\nY: b\r\n",
           "X: a\x01\r\n",
           "X: a\x7f\r\n",
           "X\x0b: a\r\n",
           "X Y: a\r\n",
           ": a\r\n",
           "no colon\r\n",
           "Host: y\r\n",
           "\xc3\xa9: a\r\n",
       }) {
    EXPECT_EQ(refusal(with_headers(headers, "abc")), 400) << headers;
  }
  EXPECT_EQ(refusal(with_headers(std::string("X: a\0b\r\n", 8))), 400);
}

TEST(RequestReader, RefusesBadChunks) {
  for (const char* body :
       {"x\r\n", "-1\r\n", "+1\r\n", " 1\r\na\r\n", "\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n", "1\r\na0\r\n\r\n", "0x1\r\na\r\n0\r\n\r\n", "1 1\r\na\r\n", "1;\r\na\r\n",
        "1;a=\"\r\n\"\r\n\r\n", "0\r\nbad trailer\r\n\r\n", "0\r\nX: a\nY: b\r\n\r\n", "0\r\nX: \x01\r\n\r\n",
        "1\r\na\r\n0\r\nContent-Length: 3\r\n\r\n"}) {
    EXPECT_EQ(refusal(with_headers("Transfer-Encoding: chunked\r\n", body)), 400) << body;
  }
  for (const char* size : {"11111111111111111", "ffffffffffffffff", "7fffffffffffffff"}) {
    EXPECT_GE(refusal(with_headers("Transfer-Encoding: chunked\r\n", fmt::format("{}\r\na", size))), 400)
        << size;
  }
}

TEST(RequestReader, AnOpenQuoteInAnExtensionIsRefusedHoweverItComes) {
  const std::string bytes = with_headers("Transfer-Encoding: chunked\r\n", "01;a=\"b\r\nc");
  EXPECT_EQ(refusal(bytes), 400);
  RequestReader reader(kLimits);
  for (std::size_t i = 0; i < bytes.size() && reader.state() != State::kRefused; ++i)
    reader.feed(bytes.substr(i, 1));
  ASSERT_EQ(reader.state(), State::kRefused);
  EXPECT_EQ(reader.error().status, 400);
}

TEST(RequestReader, RefusesAbsurdRequestLines) {
  for (const char* line :
       {"GET  / HTTP/1.1",      "GET /  HTTP/1.1",        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",      "GET\t/ HTTP/1.1",        "GET /",
        "GET / HTTP/2.0",       "GET / HTTP/0.9",         "GET / HTTP/1.2",
        "GET / http/1.1",       "GET / HTTP/1.10",        "GET / HTTP/11",
        "get / HTTP/1.1",       "G\x01T / HTTP/1.1",      "CONNECT host:443 HTTP/1.1",
        "CONNECT / HTTP/1.1",   "TRACE / HTTP/1.1",       "AVERYVERYVERYLONGMETHOD / HTTP/1.1",
        "GE-T / HTTP/1.1",      "GET http://y/ HTTP/1.1", "GET x:80 HTTP/1.1",
        "GET * HTTP/1.1",       "GET /../x HTTP/1.1",     "GET /%2e%2e/x HTTP/1.1",
        "GET /%2E./x HTTP/1.1", "GET /a\xff HTTP/1.1",    "PRI * HTTP/2.0"}) {
    EXPECT_EQ(refusal(fmt::format("{}\r\nHost: x\r\n\r\n", line)), 400) << line;
  }
  EXPECT_EQ(refusal("\x16\x03\x01\x02"), 400);  // a TLS greeting
  EXPECT_EQ(refusal("GET / HTTP/1.1\n"), 400);  // at once, not after a time-out
}

TEST(RequestReader, WantsAHost) {
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(refusal("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(RequestReader, BoundsTheHead) {
  EXPECT_EQ(refusal("GET /" + std::string(600, 'a')), 431);
  EXPECT_EQ(refusal(with_headers("X: " + std::string(600, 'a') + "\r\n")), 431);
  const RequestLimits roomy{.max_header_bytes = 1 << 20, .max_body_bytes = 64};
  std::string many;
  for (int i = 0; i < 200; ++i) many += "a: b\r\n";
  EXPECT_EQ(read(with_headers(many), roomy).error().status, 431);
}

TEST(RequestReader, BoundsTheBodyBeforeItComes) {
  const RequestReader reader = read(with_headers("Content-Length: 65\r\n"));
  ASSERT_EQ(reader.state(), State::kRefused);
  EXPECT_EQ(reader.error().status, 413);
  EXPECT_EQ(reader.error().path, "/v1");
  EXPECT_EQ(refusal(with_headers("Content-Length: 64\r\n")), 0);
  EXPECT_EQ(refusal(with_headers("Transfer-Encoding: chunked\r\n", "41\r\n")), 413);
  std::string small_chunks;
  for (int i = 0; i < 65; ++i) small_chunks += "1\r\na\r\n";
  EXPECT_EQ(refusal(with_headers("Transfer-Encoding: chunked\r\n", small_chunks)), 413);
}

TEST(RequestReader, BoundsLinesBetweenChunks) {
  EXPECT_EQ(refusal(with_headers("Transfer-Encoding: chunked\r\n", "1;" + std::string(600, 'a'))), 431);
  EXPECT_EQ(refusal(with_headers("Transfer-Encoding: chunked\r\n", "0\r\nX: " + std::string(600, 'a'))), 431);
}

TEST(RequestReader, KnowsWhoWaitsForContinue) {
  EXPECT_TRUE(read(with_headers("Expect: 100-Continue\r\nContent-Length: 3\r\n")).expects_continue());
  EXPECT_FALSE(read(with_headers("Expect: 100-continue\r\n")).expects_continue());  // no body
  EXPECT_FALSE(
      read("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").expects_continue());
  EXPECT_EQ(refusal(with_headers("Expect: miracles\r\n")), 417);
}

TEST(RequestReader, ErrorsHoldNothingOfTheRequest) {
  const RequestReader reader = read(with_headers("Secret-Name: secret\x01value\r\n"));
  ASSERT_EQ(reader.state(), State::kRefused);
  EXPECT_EQ(default_error_response(reader.error()).body.find("ecret"), std::string::npos);
}

/// However the bytes are cut into pieces, the outcome is the same.
TEST(RequestReader, CutsDoNotMatter) {
  EXPECT_TRUE(rc::check("fed by pieces as at once", [] {
    const std::string body = *rc::gen::container<std::string>(rc::gen::inRange('a', 'z'));
    std::string bytes;
    if (*rc::gen::arbitrary<bool>()) {
      bytes = with_headers(fmt::format("Content-Length: {}\r\n", body.size()), body);
    } else {
      std::string chunks;
      for (std::size_t at = 0; at < body.size(); at += 7) {
        const std::string piece = body.substr(at, 7);
        chunks += fmt::format("{:x}{}\r\n{}\r\n", piece.size(), at % 2 == 0 ? ";a=b" : "", piece);
      }
      bytes = with_headers("Transfer-Encoding: chunked\r\n", chunks + "0\r\nT: r\r\n\r\n");
    }
    if (*rc::gen::inRange(0, 4) == 0)
      bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    bytes += "GET / HTTP/1.1\r\n";

    RequestReader whole(kLimits), pieces(kLimits);
    const std::size_t used_at_once = whole.feed(bytes);
    std::size_t used = 0;
    std::string waiting;
    while (used < bytes.size() && pieces.state() != State::kComplete && pieces.state() != State::kRefused) {
      const std::size_t size = *rc::gen::inRange<std::size_t>(1, 9);
      used += pieces.feed(std::string_view(bytes).substr(used, size));
    }
    RC_ASSERT(pieces.state() == whole.state());
    if (whole.state() == State::kComplete) {
      RC_ASSERT(used == used_at_once);
      RC_ASSERT(pieces.request().body == whole.request().body);
      RC_ASSERT(pieces.request().path == whole.request().path);
      RC_ASSERT(pieces.request().headers == whole.request().headers);
    }
  }));
}

}  // namespace
}  // namespace baleen
