#include "repetitive_texts.h"

#include <fmt/format.h>

#include <functional>
#include <random>
#include <string_view>

namespace baleen {
namespace {

/// Draws of one text, the same in every run.
class Draws {
 public:
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  std::string_view of(const std::vector<std::string_view>& words) {
    return words[static_cast<std::size_t>(number(0, std::ssize(words) - 1))];
  }
  std::string_view name() {
    return of({"Alice", "Bob", "Carla", "Dmitri", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jamal"});
  }
  std::string_view city() { return of({"Paris", "Berlin", "Oslo", "Madrid", "Rome", "Vienna", "Prague"}); }
  std::string letters(std::string_view alphabet, std::int64_t count) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i)
      text += alphabet[static_cast<std::size_t>(number(0, std::ssize(alphabet) - 1))];
    return text;
  }

 private:
  std::mt19937_64 random_{17};
};

using Line = std::function<std::string(std::int64_t line, Draws& draws)>;

std::string lines(std::int64_t count, const Line& line) {
  Draws draws;
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += line(i, draws) + "\n";
  return text;
}

std::string repeated(std::string_view text, std::int64_t count) {
  std::string all;
  for (std::int64_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string matrix(std::int64_t size, std::string_view zero, std::string_view one) {
  return "[\n" +
         lines(size,
               [&](std::int64_t row, Draws&) {
                 std::string line = "  [";
                 for (std::int64_t column = 0; column < size; ++column)
                   line += fmt::format("{}{}", column == 0 ? "" : ", ", row == column ? one : zero);
                 return line + "],";
               }) +
         "]\n";
}

std::string wrapped(std::string_view text) {
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += 76) all += fmt::format("{}\n", text.substr(at, 76));
  return all;
}

}  // namespace

std::vector<NamedText> sound_texts(std::int64_t size) {
  using fmt::format;
  Draws draws;
  std::vector<NamedText> texts;
  const auto add = [&](std::string name, std::string text) {
    texts.push_back({std::move(name), std::move(text)});
  };
  const auto add_lines = [&](std::string name, const Line& line) { add(std::move(name), lines(size, line)); };

  add_lines("table", [](std::int64_t i, Draws& d) {
    return format("| {} | {} | {} | {} | {} |", i + 1, d.name(), d.city(), d.number(1, 999),
                  d.of({"yes", "no"}));
  });
  add("empty table", repeated("|  |  |  |  |  |\n", size));
  add_lines("csv", [](std::int64_t i, Draws& d) {
    return format("{},{},{}@example.com,2024-0{}-{},{}.{:02}", i, d.name(), d.name(), d.number(1, 9),
                  d.number(10, 28), d.number(0, 99), d.number(0, 99));
  });
  add_lines("json objects", [](std::int64_t i, Draws& d) {
    return format(R"(  {{"id": {}, "name": "Item {}", "price": {}.99, "in_stock": true, "tags": ["new"]}},)",
                  i, i, d.number(1, 99));
  });
  add("empty records", repeated("  {\"id\": null, \"name\": \"\", \"enabled\": false},\n", size / 2));
  add_lines("xml", [](std::int64_t i, Draws& d) {
    return format("  <item id=\"{}\">\n    <name>{}</name>\n    <value>{}</value>\n  </item>", i, d.name(),
                  d.number(1, 9999));
  });
  add("empty cells", repeated("<tr><td></td><td></td><td></td><td></td></tr>\n", size / 2));
  add("services", lines(size / 4, [](std::int64_t i, Draws&) {
        return format(
            "- name: service-{}\n  replicas: 1\n  image: registry.example.com/app:{}\n  resources:\n"
            "    limits:\n      cpu: 500m\n      memory: 256Mi\n    requests:\n      cpu: 100m\n"
            "      memory: 64Mi\n  ports:\n  - containerPort: 8080\n    protocol: TCP",
            i, i);
      }));
  add_lines("insert statements", [](std::int64_t i, Draws&) {
    return format("INSERT INTO users (id, name, email) VALUES ({}, 'user{}', 'user{}@example.com');", i, i,
                  i);
  });
  add("test cases", lines(size / 2, [](std::int64_t i, Draws&) {
        return format("TEST(Foo, Case{}) {{\n  Foo foo;\n  foo.run({});\n  EXPECT_TRUE(foo.ok());\n}}\n", i,
                      i);
      }));
  add_lines("switch",
            [](std::int64_t i, Draws& d) { return format("    case {}: return \"{}\";", i, d.name()); });
  add_lines("assertions", [](std::int64_t i, Draws&) { return format("assert f({}) == {}", i, i * i); });
  add_lines("protobuf",
            [](std::int64_t i, Draws&) { return format("  optional string field_{} = {};", i, i + 1); });
  add_lines("accessors", [](std::int64_t, Draws& d) {
    return format("  int get{}() const {{ return m_{}; }}", d.name(), d.name());
  });
  add("lookup table", "static const uint8_t kTable[256] = {\n" +
                          repeated("    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,\n", 32) + "};\n");
  add_lines("heartbeats", [](std::int64_t i, Draws& d) {
    return format("2024-05-01T12:{:02}:{:02}Z INFO worker-{} heartbeat ok", i / 60, i % 60, d.number(1, 8));
  });
  add_lines("requests", [](std::int64_t i, Draws& d) {
    return format("2024-05-01T12:{:02}:{:02}Z INFO http: GET /api/v1/items/{} 200 {} ms", i / 60, i % 60,
                  d.number(1, 9999), d.number(1, 90));
  });
  add("counting", lines(size / 4, [](std::int64_t i, Draws&) {
        std::string line;
        for (std::int64_t n = 10 * i; n < 10 * i + 10; ++n) line += format("{}, ", n);
        return line;
      }));
  add_lines("multiplication", [](std::int64_t i, Draws&) {
    return format("{} x {} = {}", i / 20 + 1, i % 20 + 1, (i / 20 + 1) * (i % 20 + 1));
  });
  add_lines("days", [](std::int64_t i, Draws&) {
    return format("- 2024-{:02}-{:02}: no events", i / 28 % 12 + 1, i % 28 + 1);
  });
  add("zeros", matrix(28, "0", "0"));
  add("identity", matrix(32, "0", "1"));
  add("truth table", matrix(12, "false", "true"));
  add_lines("hex dump", [](std::int64_t i, Draws&) {
    return format("{:08x}: 0000 0000 0000 0000 0000 0000 0000 0000  ................", 16 * i);
  });
  add("base64",
      wrapped(draws.letters("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 20 * size)));
  add("base64 of zeros", wrapped(std::string(static_cast<std::size_t>(10 * size), 'A') + "=="));
  add("dna", wrapped(draws.letters("ACGT", 20 * size)));
  add("one base", wrapped(std::string(static_cast<std::size_t>(10 * size), 'A')));
  add("rules", repeated(std::string(70, '=') + "\n", size / 2));
  add("board", repeated("| . | . | . | . | . | . | . | . |\n+---+---+---+---+---+---+---+---+\n", 16));
  add("waves", repeated(R"(  /\    /\    /\    /\    /\    /\
 /  \  /  \  /  \  /  \  /  \  /  \
/    \/    \/    \/    \/    \/    \
)",
                        size / 4));
  add("drums", lines(size / 4, [](std::int64_t i, Draws&) {
        return format("Bar {}:\nHH |x-x-x-x-x-x-x-x-|\nSD |----o-------o---|\nBD |o-------o-------|\n",
                      i + 1);
      }));
  add("bottles", lines(size / 2, [&](std::int64_t i, Draws&) {
        const std::int64_t left = size / 2 - i;
        return format(
            "{} bottles of beer on the wall, {} bottles of beer.\nTake one down and pass it around, "
            "{} bottles of beer on the wall.\n",
            left, left, left - 1);
      }));
  add("refrain", lines(size / 8, [](std::int64_t i, Draws& d) {
        return format(
            "{} went out to {} in the rain of day {},\nand said to {}, who stayed at home:\nRow, row, "
            "row your boat,\nGently down the stream,\nMerrily, merrily, merrily, merrily,\nLife is but "
            "a dream.\n",
            d.name(), d.city(), i + 1, d.name());
      }));
  add("chorus",
      repeated("Row, row, row your boat,\nGently down the stream,\nMerrily, merrily, merrily, merrily,\n"
               "Life is but a dream.\n\n",
               8));
  add("a sentence to write out", repeated("I must not talk in class.\n", 100));
  add("one word", repeated("hello ", 500));
  add_lines("steps", [](std::int64_t i, Draws& d) {
    return format("- [ ] Step {}: review the module of {} and update the tests", i + 1, d.name());
  });
  add_lines("chinese list", [](std::int64_t i, Draws& d) {
    return format("{}. 姓名：{}，城市：{}，年龄：{}岁。", i + 1, d.name(), d.city(), d.number(18, 80));
  });
  return texts;
}

std::vector<NamedText> looping_texts(std::size_t num_bytes) {
  using fmt::format;
  const std::string beginning =
      "The user wants me to read the file and to fix the bug in it. I have a tool for that, and two of its "
      "arguments are required.\n";
  std::vector<NamedText> texts;
  const auto add = [&](std::string name, const Line& line) {
    Draws draws;
    std::string text = beginning;
    for (std::int64_t i = 0; text.size() < num_bytes; ++i) text += line(i, draws);
    texts.push_back({std::move(name), std::move(text)});
  };
  add("sentence", [](std::int64_t, Draws&) { return "Wait, let me call the tool to read the file. "; });
  add("word", [](std::int64_t, Draws&) { return "items "; });
  add("line", [](std::int64_t, Draws&) { return "Okay.\n"; });
  add("chinese", [](std::int64_t, Draws&) { return "我应该再次调用这个工具来读取文件。"; });
  Draws draws;
  std::string paragraph;
  for (int i = 0; i < 110; ++i)
    paragraph += draws.letters("aeiou", 1) + draws.letters("bdfgklmnprst", 2) + " ";
  add("paragraph", [&](std::int64_t, Draws&) { return paragraph + "\n\n"; });
  add("call", [](std::int64_t, Draws&) { return "{\"path\": \"src/main.cc\", \"line\": 17}\n"; });
  add("counter", [](std::int64_t i, Draws&) {
    return format("Attempt {}: let me try to call the tool again.\n", i + 1);
  });
  add("word that changes", [](std::int64_t, Draws& d) {
    return format("Let me look at the {} again. I should call the function now. ",
                  d.of({"file", "code", "test", "tool"}));
  });
  add("words of several tokens", [](std::int64_t, Draws& d) {
    return format(
        "Actually, {}. I need to call the tool with the right arguments, and the right arguments are "
        "the path of the file and the number of the line. Let me do it now. ",
        d.of({"wait", "hold on", "no", "hmm"}));
  });
  return texts;
}

}  // namespace baleen
