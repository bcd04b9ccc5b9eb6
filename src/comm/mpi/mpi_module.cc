// The module: the only file that knows MPI.

#include <mpi.h>

#include <limits>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/program_module.h"
#include "comm/mpi/mpi_world.h"

namespace baleen {
namespace {

void check(int status, const char* doing) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail("MPI: {}: {}", doing, text);
}

int count_of(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    fail("a message of {} bytes: MPI ranks send 2 GiB at most; try a smaller ‹chunk›", bytes);
  return static_cast<int>(bytes);
}

class OpenMpiWorld final : public MpiWorld {
 public:
  OpenMpiWorld() {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "starting");
    if (given < MPI_THREAD_SERIALIZED) fail("MPI: this library cannot be called from several threads");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "setting the error handler");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "reading the rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "reading the number of ranks");
  }

  [[nodiscard]] std::int64_t rank() const override { return rank_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }

  void start_send(std::int64_t to, int tag, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    check(MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, static_cast<int>(to), tag, MPI_COMM_WORLD,
                    &add(to, -1)),
          "sending");
  }
  void start_receive(std::int64_t from, int tag, std::span<std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    check(MPI_Irecv(bytes.data(), count_of(bytes.size()), MPI_BYTE, static_cast<int>(from), tag,
                    MPI_COMM_WORLD, &add(from, static_cast<std::int64_t>(bytes.size()))),
          "receiving");
  }
  [[nodiscard]] std::int64_t test() override {
    const std::lock_guard lock(mutex_);
    while (!requests_.empty()) {
      int done = 0;
      MPI_Status status{};
      const Part part = parts_.back();
      const int result = MPI_Test(&requests_.back(), &done, &status);
      if (result != MPI_SUCCESS && part.expected_bytes >= 0) refuse("more", part);
      check(result, "exchanging");
      if (done == 0) return part.rank;
      requests_.pop_back();
      parts_.pop_back();
      if (part.expected_bytes < 0) continue;
      int count = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &count), "reading a message's length");
      if (count != part.expected_bytes) refuse(fmt::format("{}", count), part);
    }
    return -1;
  }
  [[nodiscard]] std::int64_t waiting_bytes(std::int64_t from, int tag) override {
    const std::lock_guard lock(mutex_);
    int there = 0, count = 0;
    MPI_Status status{};
    check(MPI_Iprobe(static_cast<int>(from), tag, MPI_COMM_WORLD, &there, &status), "looking for messages");
    if (there == 0) return -1;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "reading a message's length");
    return count;
  }
  void finalize() override { check(MPI_Finalize(), "ending"); }

 private:
  struct Part {
    std::int64_t rank;
    std::int64_t expected_bytes;  ///< -1: it is sent
  };
  MPI_Request& add(std::int64_t other, std::int64_t expected_bytes) {
    parts_.push_back({other, expected_bytes});
    return requests_.emplace_back();
  }
  [[noreturn]] void refuse(const std::string& sent, const Part& part) const {
    fail("rank {} sends {} bytes to rank {}, which expects {}: they run different plans or batches",
         part.rank, sent, rank_, part.expected_bytes);
  }

  std::mutex mutex_;  ///< MPI was started for one caller at a time
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<Part> parts_;
};

}  // namespace
}  // namespace baleen

BALEEN_EXPORTED baleen::MpiWorld* baleen_mpi_world_2() { return new baleen::OpenMpiWorld; }
