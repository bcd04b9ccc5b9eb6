#include "server/conversation_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using Kind = ExpectedVersion::Kind;
using test::TemporaryFolder;

const ExpectedVersion kAny;

std::string conversation(const std::string& title, double changed = 1, const std::string& text = "hi") {
  const Json message = {{"role", "user"}, {"text", text}};
  const Json turn = {{"id", "1"}, {"parent", nullptr}, {"at", 1}, {"message", message}};
  return Json{{"title", title}, {"changed", changed}, {"turns", {turn}}}.dump();
}

std::vector<std::string> titles(ConversationStore& store, const std::string& key = "") {
  std::vector<std::string> all;
  const Json listed = Json::parse(store.list(key));
  for (const Json& entry : listed["conversations"]) all.push_back(entry["title"]);
  return all;
}

int status_of(const ApiResult<std::string>& written) {
  const auto* error = std::get_if<ApiError>(&written);
  return error == nullptr ? 200 : error->status;
}

void put(const std::filesystem::path& path, std::string_view text) {
  AtomicFileWriter writer(path);
  writer.write(text);
  writer.commit();
}

TEST(ConversationStore, KeepsWhatWasWrittenOverARestart) {
  const TemporaryFolder folder;
  std::string version;
  {
    ConversationStore store({.folder = folder / "kept"});
    version = std::get<std::string>(store.write("", "a-1", conversation("Fox", 1), kAny));
    ASSERT_EQ(status_of(store.write("", "B_2", conversation("Owl", 2), kAny)), 200);
  }
  ConversationStore store({.folder = folder / "kept"});
  EXPECT_EQ(titles(store), (std::vector<std::string>{"Owl", "Fox"}));
  const auto kept = std::get<KeptConversation>(store.read("", "a-1"));
  EXPECT_EQ(kept.text, conversation("Fox", 1));
  EXPECT_EQ(kept.version, version);
  EXPECT_EQ(store.erase("", "a-1", kAny), std::nullopt);
  EXPECT_EQ(std::get<ApiError>(store.read("", "a-1")).status, 404);
  EXPECT_EQ(store.erase("", "a-1", kAny)->status, 404);
  EXPECT_EQ(titles(store), std::vector<std::string>{"Owl"});
}

TEST(ConversationStore, FollowsFilesThatChangeBesideIt) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder.path()});
  put(folder / "x.json", conversation("Copied here"));
  EXPECT_EQ(titles(store), std::vector<std::string>{"Copied here"});
  put(folder / "x.json", conversation("Edited by hand"));
  EXPECT_EQ(titles(store), std::vector<std::string>{"Edited by hand"});
  std::filesystem::remove(folder / "x.json");
  EXPECT_TRUE(titles(store).empty());
}

TEST(ConversationStore, PassesOverWhatIsNoConversation) {
  const TemporaryFolder folder;
  put(folder / "outside.txt", "secret");
  ConversationStore store({.folder = folder / "kept"});
  put(folder / "kept/half.json", R"({"title": "x", "turns": [)");
  put(folder / "kept/list.json", "[1, 2]");
  put(folder / "kept/notes.txt", conversation("Not by name"));
  put(folder / "kept/a b.json", conversation("No id"));
  std::filesystem::create_directory(folder / "kept/folder.json");
  std::filesystem::create_symlink("../outside.txt", folder / "kept/link.json");
  EXPECT_TRUE(titles(store).empty());
  EXPECT_EQ(std::get<ApiError>(store.read("", "link")).status, 404);
  EXPECT_EQ(std::get<ApiError>(store.read("", "folder")).status, 404);
  EXPECT_NE(status_of(store.write("", "link", conversation("Through a link"), kAny)), 200);
  EXPECT_EQ(read_text_file(folder / "outside.txt"), "secret");
}

TEST(ConversationStore, NoIdLeadsOutOfItsFolder) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder / "kept"});
  put(folder / "x.json", conversation("Outside"));
  for (const std::string& id : std::vector<std::string>{"../x", "..", ".", "", "a/b", "/etc/passwd", "x.json",
                                                        "a b", "\xc3\xa9", "a\nb", "key-0/../../x"}) {
    EXPECT_EQ(std::get<ApiError>(store.read("", id)).status, 400) << id;
    EXPECT_EQ(status_of(store.write("", id, conversation("In"), kAny)), 400) << id;
    EXPECT_EQ(store.erase("", id, kAny)->status, 400) << id;
  }
  EXPECT_EQ(status_of(store.write("", std::string(65, 'a'), conversation("Long"), kAny)), 400);
  EXPECT_EQ(status_of(store.write("", std::string(64, 'a'), conversation("Long"), kAny)), 200);
  EXPECT_TRUE(std::filesystem::exists(folder / "x.json"));
}

TEST(ConversationStore, AKeyHasItsOwn) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder.path()});
  ASSERT_EQ(status_of(store.write("alice", "x", conversation("Alice's"), kAny)), 200);
  ASSERT_EQ(status_of(store.write("bob", "x", conversation("Bob's"), kAny)), 200);
  EXPECT_EQ(titles(store, "alice"), std::vector<std::string>{"Alice's"});
  EXPECT_EQ(titles(store, "bob"), std::vector<std::string>{"Bob's"});
  EXPECT_TRUE(titles(store, "carol").empty());
  EXPECT_TRUE(titles(store).empty());
  EXPECT_EQ(store.erase("carol", "x", kAny)->status, 404);
}

TEST(ConversationStore, AVersionThatIsOldWritesNothing) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder.path()});
  const ExpectedVersion absent{.kind = Kind::kAbsent};
  const std::string first = std::get<std::string>(store.write("", "x", conversation("One"), absent));
  EXPECT_EQ(status_of(store.write("", "x", conversation("Two"), absent)), 412);
  const ExpectedVersion of_first{.kind = Kind::kThis, .version = first};
  const std::string second = std::get<std::string>(store.write("", "x", conversation("Two"), of_first));
  EXPECT_NE(first, second);
  EXPECT_EQ(status_of(store.write("", "x", conversation("Three"), of_first)), 412);
  EXPECT_EQ(store.erase("", "x", of_first)->status, 412);
  EXPECT_EQ(titles(store), std::vector<std::string>{"Two"});
  EXPECT_EQ(store.erase("", "x", {.kind = Kind::kThis, .version = second}), std::nullopt);
  EXPECT_EQ(status_of(store.write("", "x", conversation("Three"), of_first)), 412);
}

TEST(ConversationStore, IsBounded) {
  const TemporaryFolder folder;
  const std::string small = conversation("Small");
  ConversationStore store({.folder = folder.path(),
                           .max_bytes = 3 * small.size(),
                           .max_conversations = 2,
                           .max_conversation_bytes = 2 * small.size()});
  EXPECT_EQ(status_of(store.write("", "large", conversation("Large", 1, std::string(500, 'x')), kAny)), 413);
  ASSERT_EQ(status_of(store.write("", "a", small, kAny)), 200);
  const std::string medium = conversation("Small", 1, std::string(small.size() - 20, 'x'));
  ASSERT_EQ(status_of(store.write("", "b", small, kAny)), 200);
  EXPECT_EQ(status_of(store.write("", "c", small, kAny)), 507) << "a third";
  EXPECT_EQ(status_of(store.write("", "b", medium, kAny)), 200) << "in place of its own bytes";
  EXPECT_EQ(status_of(store.write("", "a", medium, kAny)), 507) << "more than three small ones in bytes";
  EXPECT_EQ(std::get<KeptConversation>(store.read("", "a")).text, small) << "what was there stays";
}

TEST(ConversationStore, TheListHasTheBeginningOfALongTitle) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder.path()});
  std::string title = "x";
  for (int i = 0; i < 1000; ++i) title += "\u00e9";
  ASSERT_EQ(status_of(store.write("", "x", conversation(title), kAny)), 200);
  EXPECT_EQ(titles(store).at(0), title.substr(0, 511)) << "whole characters of two bytes, after one of one";
  EXPECT_EQ(std::get<KeptConversation>(store.read("", "x")).text, conversation(title));
}

TEST(ConversationStore, RefusesWhatIsNoConversationWithASentence) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder.path()});
  const std::string deep = R"({"title":"x","turns":)" + std::string(2000, '[') + std::string(2000, ']') + "}";
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string(R"({"turns":[]})"),
        std::string(R"({"title":1,"turns":[]})"), std::string(R"({"title":"x","turns":{}})"), deep}) {
    const auto written = store.write("", "x", text, kAny);
    const auto* error = std::get_if<ApiError>(&written);
    ASSERT_NE(error, nullptr) << text.substr(0, 40);
    EXPECT_EQ(error->status, 400);
    EXPECT_GT(error->message.size(), 20U);
  }
  EXPECT_TRUE(titles(store).empty());
}

TEST(ConversationStore, AFolderThatCannotBeIsRefusedAtTheStart) {
  const TemporaryFolder folder;
  put(folder / "file", "x");
  EXPECT_THROW(ConversationStore({.folder = folder / "file"}), Error);
  EXPECT_THROW(ConversationStore({.folder = folder / "file" / "below"}), Error);
}

TEST(ConversationStore, ManyThreadsWriteOneConversation) {
  const TemporaryFolder folder;
  ConversationStore store({.folder = folder.path()});
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&store, i] {
      for (int round = 0; round < 20; ++round)
        EXPECT_EQ(status_of(store.write("", "x", conversation(std::to_string(i), round), kAny)), 200);
    });
  }
  threads.clear();
  EXPECT_EQ(titles(store).size(), 1U);
}

/// Writes two conversations in turn, each larger than a page, until it is killed. A byte into `progress` for
/// each.
[[noreturn]] void write_for_ever(const std::filesystem::path& folder, int progress) {
  ConversationStore store({.folder = folder});
  for (int i = 0;; ++i) {
    const std::string text =
        conversation(std::to_string(i), i, std::string(200'000, static_cast<char>('a' + i % 26)));
    if (status_of(store.write("", i % 2 == 0 ? "even" : "odd", text, kAny)) != 200) ::_exit(1);
    if (::write(progress, "w", 1) != 1) ::_exit(2);
  }
}

TEST(ConversationStore, WhateverIsKilledInTheMiddleLeavesWholeConversations) {
  for (int kill_after = 2; kill_after < 22; ++kill_after) {
    const TemporaryFolder folder;
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_for_ever(folder.path(), pipe[1]);
    ::close(pipe[1]);
    char byte = 0;
    for (int i = 0; i < kill_after; ++i) ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(pipe[0]);

    ConversationStore store({.folder = folder.path()});
    EXPECT_EQ(titles(store).size(), 2U);
    std::size_t files = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      ++files;
      EXPECT_TRUE(Json::accept(read_text_file(file.path()))) << file.path();
    }
    EXPECT_EQ(files, 2U) << "nothing half-written is left";
  }
}

}  // namespace
}  // namespace baleen
