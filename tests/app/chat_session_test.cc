#include "app/chat_session.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = ChatSession::Json;
namespace fs = std::filesystem;

class ChatSessionFile : public testing::Test {
 protected:
  // The sentence with which a file of this text is refused, without the file's name; empty when it is
  // accepted.
  std::string refusal(std::string_view text) const {
    const fs::path path = folder_ / "given.json";
    AtomicFileWriter file(path);
    file.write(text);
    file.commit();
    ChatSession session;
    session.add_user("unharmed");
    const Json before = session.messages();
    const auto loaded = session.load(path);
    if (loaded.ok()) return "";
    EXPECT_EQ(session.messages(), before);
    EXPECT_TRUE(loaded.error().starts_with(path.string() + ": ")) << loaded.error();
    return loaded.error().substr(path.string().size() + 2);
  }

  const test::TemporaryFolder folder_;
};

ChatSession conversation() {
  ChatSession session("Be brief.");
  session.add_user("Grüße 🦊\n\"quoted\"");
  session.add_reply({{"role", "assistant"}, {"content", "Hallo."}, {"reasoning_content", "A greeting."}});
  session.add_user("More.");
  return session;
}

TEST(ChatSession, KeepsMessagesInOrder) {
  EXPECT_EQ(
      conversation().messages().dump(),
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Grüße 🦊\n\"quoted\""},)"
      R"({"role":"assistant","content":"Hallo.","reasoning_content":"A greeting."},)"
      R"({"role":"user","content":"More."}])");
  EXPECT_EQ(ChatSession().messages(), Json::array());
}

TEST(ChatSession, AnewLeavesTheSystemMessage) {
  ChatSession session = conversation();
  session.start_anew();
  EXPECT_EQ(session.messages().dump(), R"([{"role":"system","content":"Be brief."}])");
}

TEST(ChatSession, OnlyAnUnansweredMessageIsTakenBack) {
  ChatSession session = conversation();
  session.drop_unanswered();
  EXPECT_EQ(session.messages().size(), 3u);
  session.drop_unanswered();
  EXPECT_EQ(session.messages().size(), 3u);
}

TEST_F(ChatSessionFile, SavedConversationComesBackWhole) {
  const ChatSession session = conversation();
  EXPECT_EQ(session.save(folder_ / "a b.json").value(), 4u);
  ChatSession other;
  other.add_user("forgotten");
  EXPECT_EQ(other.load(folder_ / "a b.json").value(), 4u);
  EXPECT_EQ(other.messages().dump(), session.messages().dump());  // order of keys included
}

TEST_F(ChatSessionFile, BytesThatAreNotUtf8DoNotLoseTheConversation) {
  ChatSession session;
  session.add_user("half a character: \xF0\x9F");
  EXPECT_TRUE(session.save(folder_ / "a.json").ok());
  EXPECT_EQ(session.load(folder_ / "a.json").value(), 1u);
}

TEST_F(ChatSessionFile, PlacesThatCannotBeWrittenOrReadAreNamed) {
  ChatSession session = conversation();
  const fs::path nowhere = folder_ / "absent" / "a.json";
  EXPECT_NE(session.save(nowhere).error().find(nowhere.string()), std::string::npos);
  EXPECT_NE(session.load(nowhere).error().find(nowhere.string()), std::string::npos);
  EXPECT_FALSE(session.load(folder_.path()).ok());
  EXPECT_FALSE(session.save(folder_.path()).ok());
  EXPECT_EQ(session.messages().size(), 4u);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(ChatSessionFile, FilesOfThePersonsOwnMakingAreAccepted) {
  EXPECT_EQ(refusal(R"({"messages": []})"), "");
  EXPECT_EQ(refusal(R"({"note": 1, "messages": [{"role": "user", "content": "", "extra": [1]}]})"), "");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": []}]})"), "");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "tool", "tool_call_id": "1", "content": "x"}]})"), "");
}

TEST_F(ChatSessionFile, MalformedFilesAreRefusedAndChangeNothing) {
  const std::string shape = R"(expected an object with an array "messages", as /save writes it)";
  EXPECT_EQ(refusal("[]"), shape);
  EXPECT_EQ(refusal("3"), shape);
  EXPECT_EQ(refusal(R"({"messages": {}})"), shape);
  EXPECT_EQ(refusal(""), "not JSON: stopped making sense at byte 1");
  EXPECT_EQ(refusal(R"({"messages": [)"), "not JSON: stopped making sense at byte 15");
  EXPECT_EQ(refusal("{\"messages\": [{\"role\": \"user\", \"content\": \"\xFF\"}]}"),
            "not JSON: stopped making sense at byte 44");
  EXPECT_EQ(refusal(R"({"messages": [1]})"), "message 1 of 1 is number; expected an object");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": "a"}, {"content": "b"}]})"),
            R"(message 2 of 2 has no "role", or one that is not a string)");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "usr", "content": "a"}]})"),
            R"(message 1 of 1 has the role "usr"; expected one of system, developer, user, assistant, tool, )"
            "latest_reminder");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user"}]})"),
            R"(message 1 of 1 of role "user" has no "content")");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": ["a"]}]})"),
            R"(message 1 of 1 has a "content" that is array; expected a string)");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "assistant", "content": "a", "reasoning_content": 1}]})"),
            R"(message 1 of 1 has a "reasoning_content" that is number; expected a string)");
  for (const char* number : {"1e400", "-1e400", "1e99999999999999999999"}) {
    EXPECT_NE(refusal(fmt::format(R"({{"messages": [], "note": {}}})", number)), "") << number;
  }
  EXPECT_NE(refusal(R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": 3}]})")
                .find("no reply can follow these messages"),
            std::string::npos);
  const std::string deep(100000, '[');
  EXPECT_EQ(refusal(deep + std::string(deep.size(), ']')), "nested more than 200 levels deep");
}

}  // namespace
}  // namespace baleen
