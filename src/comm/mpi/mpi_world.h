/// The processes that mpirun or srun started, as bytes between them. The program itself does not link MPI:
/// this is implemented by a small module that is loaded when the program finds itself started so, and is
/// built where Open MPI is found.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace baleen {

/// One caller at a time, but for `waiting_bytes`. Messages of one tag from one rank arrive in order.
class MpiWorld {
 public:
  virtual ~MpiWorld() = default;

  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t size() const = 0;

  /// Arrays stay as they are until `test` says that everything is done. At most 2 GiB each. A message that is
  /// longer or shorter than `bytes` makes `test` throw `Error`.
  virtual void start_send(std::int64_t to, int tag, std::span<const std::byte> bytes) = 0;
  virtual void start_receive(std::int64_t from, int tag, std::span<std::byte> bytes) = 0;
  /// A rank that something started is still for; -1: all is done. Does not wait.
  [[nodiscard]] virtual std::int64_t test() = 0;
  /// Bytes of the next message from there; -1: none has come. Does not wait. A second thread may ask this
  /// while another calls.
  [[nodiscard]] virtual std::int64_t waiting_bytes(std::int64_t from, int tag) = 0;

  /// Ends in order with all others, which call it too. Without it they are ended when this process ends.
  virtual void finalize() = 0;
};

/// What a module exports by the name `baleen_mpi_world_2`; the number changes with this interface.
/// Initialises MPI.
using MakeMpiWorld = MpiWorld* (*)();
inline constexpr const char* kMakeMpiWorld = "baleen_mpi_world_2";

/// Whether this process was started as one of several by mpirun, or by srun with PMIx.
[[nodiscard]] bool is_mpi_process();

/// A signal to Open MPI's mpirun ends all that it started: by SIGTERM, and so many seconds later by SIGKILL.
/// Its option --mca odls_base_sigkill_timeout, or 1; nothing where another launcher started this process.
[[nodiscard]] std::optional<std::int64_t> seconds_before_mpirun_kills();

/// Loads the module and meets the other processes. Throws `Error` with what is missing and how to get it. MPI
/// waits for all processes and cannot be called off, so a wait of more than kLongestMeeting ends this process
/// with a sentence and status 1: then one of the others is another program, or ended before it came.
[[nodiscard]] std::shared_ptr<MpiWorld> open_mpi_world();
inline constexpr std::chrono::seconds kLongestMeeting{30};

}  // namespace baleen
