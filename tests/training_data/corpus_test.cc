// Files of a corpus: lines, whole texts, compression, pipes, and what is no corpus.
#include "training_data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zstd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

void write(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string packed(std::string_view text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  bytes.resize(ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 3));
  return bytes;
}

struct Place {
  std::string text, place;
  bool operator==(const Place&) const = default;
};

std::vector<Place> records_of(std::vector<fs::path> files, TextRecords text_records = TextRecords::kFiles,
                              std::optional<CorpusFormat> format = std::nullopt) {
  Corpus corpus(std::move(files), format, text_records);
  std::vector<Place> all;
  std::vector<CorpusRecord> records;
  while (corpus.next_records(records, 10)) {
    for (const CorpusRecord& record : records) all.push_back({record.text, corpus.place(record)});
  }
  return all;
}

std::string error_of(const fs::path& file, TextRecords text_records = TextRecords::kFiles) {
  try {
    records_of({file}, text_records);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Corpus, LinesOfJsonAndWholeTexts) {
  const TemporaryFolder folder;
  const fs::path json = folder / "a.jsonl", text = folder / "b.txt";
  write(json, "{\"a\": 1}\n\n  \n{\"b\": 2}");
  write(text, "one\ntwo\n");
  EXPECT_EQ(records_of({json, text}), (std::vector<Place>{{"{\"a\": 1}\n", json.string() + ", line 1"},
                                                          {"{\"b\": 2}", json.string() + ", line 4"},
                                                          {"one\ntwo\n", text.string()}}));
  EXPECT_EQ(
      records_of({text}, TextRecords::kLines),
      (std::vector<Place>{{"one\n", text.string() + ", line 1"}, {"two\n", text.string() + ", line 2"}}));
}

TEST(Corpus, CompressedFilesOfAnyName) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i) + "\n";  // several blocks
  write(folder / "a.txt.zst", packed(text));
  write(folder / "b", packed("one\n") + packed("two\n"));  // two frames
  EXPECT_EQ(records_of({folder / "a.txt.zst"}).at(0).text, text);
  EXPECT_EQ(records_of({folder / "b"}).at(0).text, "one\ntwo\n");
  EXPECT_EQ(records_of({folder / "a.txt.zst"}, TextRecords::kLines).size(), 300'000u);
  EXPECT_EQ(format_of_name("x/y.jsonl.zst"), CorpusFormat::kJsonLines);
  EXPECT_EQ(format_of_name("x/y.txt.zst"), CorpusFormat::kText);
  EXPECT_EQ(format_of_name("jsonl"), CorpusFormat::kText);
}

TEST(Corpus, DamagedCompression) {
  const TemporaryFolder folder;
  const std::string bytes = packed(std::string(100'000, 'a') + "end");
  write(folder / "cut", bytes.substr(0, bytes.size() - 2));
  EXPECT_NE(error_of(folder / "cut").find("ends inside a zstd frame"), std::string::npos);
  std::string wrong = bytes;
  wrong[6] ^= 0x55;
  write(folder / "wrong", wrong);
  EXPECT_NE(error_of(folder / "wrong").find("wrong"), std::string::npos);
}

TEST(Corpus, APipe) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe.jsonl";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&pipe] { write(pipe, "{}\n{}\n"); });
  const std::size_t count = records_of({pipe}).size();
  writer.join();
  EXPECT_EQ(count, 2u);
}

TEST(Corpus, WhatIsNone) {
  const TemporaryFolder folder;
  write(folder / "empty.txt", "");
  write(folder / "blank.jsonl", "\n  \n");
  write(folder / "binary.txt", std::string_view("ab\0cd", 5));
  EXPECT_NE(error_of(folder / "empty.txt").find("holds nothing"), std::string::npos);
  EXPECT_NE(error_of(folder / "blank.jsonl").find("holds nothing"), std::string::npos);
  EXPECT_NE(error_of(folder / "binary.txt", TextRecords::kLines).find("line 1: holds a NUL byte"),
            std::string::npos);
  EXPECT_NE(error_of(folder / "absent").find("no such file"), std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("neither a regular file nor a pipe"), std::string::npos);
  EXPECT_NE(error_of("/dev/zero").find("neither a regular file nor a pipe"), std::string::npos);
}

}  // namespace
}  // namespace baleen
