#include "model_files/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/map_advice.h"
#include "base/progress.h"
#include "model/config_fields.h"
#include "model/model_family.h"
#include "model/model_folder.h"
#include "model/weight_checks.h"
#include "model_files/folder.h"
#include "model_files/staged_folder.h"
#include "model_files/weight_stream.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

/// One panel's share of a matrix's `RoundingLoss`; summed in panel order, so that threads do not matter.
struct PanelLoss {
  double max_change = 0;
  double max_value = 0;
  double sum_change = 0;
  double sum_value = 0;
  bool finite = true;
};

PanelLoss compare(std::span<const float> before, std::span<const float> after) {
  PanelLoss loss;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double value = std::fabs(static_cast<double>(before[i]));
    const double change = std::fabs(static_cast<double>(before[i]) - static_cast<double>(after[i]));
    loss.finite = loss.finite && std::isfinite(value) && std::isfinite(change);
    loss.max_value = std::max(loss.max_value, value);
    loss.max_change = std::max(loss.max_change, change);
    loss.sum_value += value;
    loss.sum_change += change;
  }
  return loss;
}

/// Scales of NVFP4 are no powers of two, and it becomes FP4 only where that is exact; those of Q8 have 11
/// bits.
bool can_be_lossless(WeightFormat from, WeightFormat to) {
  if (from == WeightFormat::kQ8) return to == WeightFormat::kF32;
  if (from == WeightFormat::kNvfp4) return to == WeightFormat::kFp4;
  return format_layout(from).bits < format_layout(to).bits || to == WeightFormat::kNvfp4;
}

/// "layers.3.ffn.experts.*.w1"
std::string name_of_all_experts(const TensorSpec& tensor) {
  if (tensor.expert < 0) return tensor.name;
  const std::size_t end = tensor.name.rfind('.'), begin = tensor.name.rfind('.', end - 1);
  return tensor.name.substr(0, begin + 1) + "*" + tensor.name.substr(end);
}

/// Bytes of a checkpoint while they are read: made where its files have them in another form, and afterwards
/// no memory of this process.
class Reading {
 public:
  Reading(const Checkpoint& checkpoint, std::span<const std::byte> bytes)
      : acquired_(checkpoint.made().get(), bytes), bytes_(bytes), is_mapped_(checkpoint.made() == nullptr) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { end(bytes_); }

  void pieces(const WeightSource::Sink& sink) const {
    for_each_piece(bytes_, [&](std::span<const std::byte> piece) {
      sink(piece);
      end(piece);
    });
  }

 private:
  void end(std::span<const std::byte> read) const {
    if (is_mapped_) end_reading(read);
  }

  AcquiredBytes acquired_;
  std::span<const std::byte> bytes_;
  bool is_mapped_;
};

class ConvertingSource final : public WeightSource {
 public:
  ConvertingSource(const Checkpoint& checkpoint, const ModelConfig& config, ConvertReport& report,
                   ThreadPool& pool)
      : checkpoint_(checkpoint),
        config_(config),
        report_(report),
        pool_(pool),
        scratch_(static_cast<std::size_t>(pool.num_threads())) {}

  void write_plain(const TensorSpec& tensor, const Sink& sink) override {
    const TensorInfo& stored = checkpoint_.at(tensor.name);
    const Reading reading(checkpoint_, stored.bytes);
    if (tensor.storage == Storage::kI64) check_hash_table(stored, config_);
    reading.pieces(sink);
  }

  /// Rows of tables have one format.
  bool keeps(const TensorSpec& tensor) const override {
    return !tensor.is_matrix() || report_.from.stored(tensor) == report_.to.stored(tensor);
  }

  void copy(const TensorSpec* tensor, const TensorHeader& array, const Sink& sink) override {
    const TensorInfo& stored = checkpoint_.at(array.name);
    const Reading reading(checkpoint_, stored.bytes);
    const bool is_scale = tensor != nullptr && array.name != stored_tensors(*tensor, report_.from)[0].name;
    if (is_scale) check_scale(stored, report_.from.of(*tensor));
    reading.pieces(sink);
  }

  void encode(const TensorSpec& tensor, EncodedMatrix& encoded) override {
    std::deque<Reading> reading;
    for (const TensorHeader& stored : stored_tensors(tensor, report_.from))
      reading.emplace_back(checkpoint_, checkpoint_.at(stored.name).bytes);
    const StoredMatrix source = stored_matrix(checkpoint_, tensor, report_.from);
    const WeightFormat to = report_.to.of(tensor);
    encoded.reset(source.rows, source.cols, to);
    const int exponent = is_fp4(source) && to == WeightFormat::kNvfp4 ? shared_exponent(tensor, source) : 0;
    if (is_fp4(source) && to == WeightFormat::kNvfp4) encoded.set_matrix_scale(std::ldexp(1.0F, exponent));
    std::vector<PanelLoss> losses(static_cast<std::size_t>(source.num_panels()));
    pool_.parallel_for(source.num_panels(), [&](std::int64_t panel, int thread) {
      losses[static_cast<std::size_t>(panel)] =
          convert_panel(source, panel, exponent, encoded, scratch_[static_cast<std::size_t>(thread)]);
    });
    account(tensor, source.format, to, losses);
  }

 private:
  struct Scratch {
    std::vector<float> before;
    std::vector<float> after;
  };

  static bool is_fp4(const StoredMatrix& matrix) { return matrix.format == WeightFormat::kFp4; }

  /// w1 and w3 of an expert share the scale of the whole matrix in NVFP4: kernels elsewhere take them as one.
  int shared_exponent(const TensorSpec& tensor, const StoredMatrix& matrix) const {
    std::vector<std::span<const std::byte>> scales{matrix.scale};
    std::deque<AcquiredBytes> acquired;
    for (const auto& [own, other] : {std::pair(".w1", ".w3"), {".w3", ".w1"}}) {
      if (!tensor.name.ends_with(own)) continue;
      const std::string stem = tensor.name.substr(0, tensor.name.size() - std::string_view(own).size());
      scales.push_back(checkpoint_.at(stem + other + ".scale").bytes);
      acquired.emplace_back(checkpoint_.made().get(), scales.back());
    }
    return nvfp4_exponent(scales);
  }

  /// `exponent`: of an NVFP4 matrix made of FP4.
  static PanelLoss convert_panel(const StoredMatrix& source, std::int64_t panel, int exponent,
                                 EncodedMatrix& encoded, Scratch& scratch) {
    const auto size = static_cast<std::size_t>(source.panel_rows(panel) * source.cols);
    scratch.before.resize(size);
    scratch.after.resize(size);
    decode_panel(source, panel, scratch.before);
    if (is_fp4(source) && is_fp8(encoded.format)) {
      recode_panel(source, panel, encoded);
    } else if (is_fp4(source) && encoded.format == WeightFormat::kNvfp4) {
      recode_to_nvfp4(source, panel, exponent, encoded);
    } else if (source.format == WeightFormat::kNvfp4 && encoded.format == WeightFormat::kFp4) {
      recode_from_nvfp4(source, panel, encoded);
    } else {
      encode_panel(encoded, panel, scratch.before);
    }
    decode_panel(encoded.view(), panel, scratch.after);
    return compare(scratch.before, scratch.after);
  }

  void account(const TensorSpec& tensor, WeightFormat from, WeightFormat to,
               std::span<const PanelLoss> losses) {
    PanelLoss sum;
    for (const PanelLoss& loss : losses) {
      if (!loss.finite) {
        fail("tensor \"{}.weight\": holds values that are not finite numbers, in {} or once rounded to {}",
             tensor.name, weight_format_name(from), weight_format_name(to));
      }
      sum.max_change = std::max(sum.max_change, loss.max_change);
      sum.max_value = std::max(sum.max_value, loss.max_value);
      sum.sum_change += loss.sum_change;
      sum.sum_value += loss.sum_value;
    }
    add(sum, report_.changed[tensor.role]);
    if (checkpoint_.is_foreign()) add(sum, report_.lossy_tensors[name_of_all_experts(tensor)]);
    if (sum.max_change == 0) return;
    if (can_be_lossless(from, to)) report_.unexpected_losses.push_back(tensor.name);
  }

  static void add(const PanelLoss& loss, RoundingLoss& to) {
    ++to.num_tensors;
    to.sum_change += loss.sum_change;
    to.sum_value += loss.sum_value;
    if (loss.max_change == 0) {
      ++to.num_exact;
    } else {
      to.max_relative_error = std::max(to.max_relative_error, loss.max_change / loss.max_value);
    }
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  ConvertReport& report_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;  ///< one a thread
};

void erase_fields(nlohmann::ordered_json& object, std::string_view prefix) {
  std::vector<std::string> gone;
  for (const auto& [name, value] : object.items())
    if (name.starts_with(prefix)) gone.push_back(name);
  for (const std::string& name : gone) object.erase(name);
}

/// Whether it says so in the release's words; compressed-tensors has others.
bool says_fp8(const nlohmann::ordered_json& config) {
  const auto found = config.find("quantization_config");
  return found != config.end() && found->is_object() && found->value("quant_method", "fp8") == "fp8";
}

/// The original config.json with its formats changed, and without the fields of heads and towers that are not
/// written; others that are unknown here stay.
std::string adapted_config(const ModelFiles& files, const ModelConfig& config, const StorageFormats& formats,
                           bool has_vision) {
  using Json = nlohmann::ordered_json;
  Result<Json> parsed = parse_ordered_json(files.config_text);
  if (!parsed) fail("{}: not JSON: {}", files.config_label, parsed.error());
  Json& object = parsed.value();
  Json& text = text_fields(object);
  const bool has_dspark = config.draft_kind == DraftKind::kDspark;  // whose releases count otherwise
  if (!has_dspark) {
    erase_fields(text, "dspark_");
    text["num_nextn_predict_layers"] = config.num_nextn_predict_layers;
  }
  if (!has_vision) erase_fields(object, "vision_");
  if (!is_fp8(formats.dense)) {
    object.erase("quantization_config");
  } else if (!says_fp8(object)) {
    ModelConfig fp8 = config;
    fp8.dense_format = config.fp8_format();
    object["quantization_config"] = parse_ordered_json(config_text(fp8)).value()["quantization_config"];
  }
  write_expert_format(object, formats.experts);
  return object.dump(2) + "\n";
}

/// `fp8`: what FP8 matrices of the model are.
StorageFormats target_formats(const StorageFormats& from, const ConvertOptions& options, WeightFormat fp8) {
  if (options.dense == WeightFormat::kFp4) {
    fail("dense weights cannot become FP4, the released layout has none; expected bf16 or fp8");
  }
  const auto is_foreign = [](WeightFormat format) {
    return format == WeightFormat::kQ8 || format == WeightFormat::kF32;
  };
  // What keeps its format keeps its bytes, so scales stay as they are. A draft head in a foreign one takes
  // that of the layers.
  const auto target = [](const StoredFormat& stored, std::optional<WeightFormat> wanted) {
    return wanted.value_or(stored.weight) == stored.weight ? stored : StoredFormat{.weight = *wanted};
  };
  const auto draft_target = [&](const std::optional<StoredFormat>& stored, std::optional<WeightFormat> wanted,
                                const StoredFormat& layers) {
    if (stored && is_foreign(stored->weight) && !wanted) return std::optional<StoredFormat>();
    const std::optional<StoredFormat> own = stored ? std::optional(target(*stored, wanted)) : std::nullopt;
    return own == layers ? std::nullopt : own;
  };
  ConvertOptions wanted = options;
  for (std::optional<WeightFormat>* format : {&wanted.experts, &wanted.dense})
    if (*format == WeightFormat::kFp8) *format = fp8;
  if (is_foreign(from.experts) && !wanted.experts) wanted.experts = fp8;
  if (is_foreign(from.dense) && !wanted.dense) wanted.dense = WeightFormat::kBF16;
  const StoredFormat experts = target({from.experts, from.expert_scale}, wanted.experts);
  const StoredFormat dense = target({from.dense, from.dense_scale}, wanted.dense);
  return {.dense = dense.weight,
          .experts = experts.weight,
          .dense_scale = dense.scale,
          .expert_scale = experts.scale,
          .draft_dense = draft_target(from.draft_dense, wanted.dense, dense),
          .draft_experts = draft_target(from.draft_experts, wanted.experts, experts)};
}

/// What of a checkpoint's tensors the table does not have, or `options` do without.
struct Parts {
  std::vector<LeftOut> left_out, copied;
  std::vector<TensorHeader> beside;  ///< those that are copied
};

/// `reads_drafts`: the table has the draft head that is there.
Parts parts_of(const ModelFiles& files, bool reads_drafts, const ConvertOptions& options) {
  const bool has_drafts = reads_drafts && options.has_draft_head;
  Parts parts{.left_out = files.kind.left_out, .copied = {}, .beside = {}};
  std::erase_if(parts.left_out, [&](const LeftOut& part) {
    return (part.is_draft_head && reads_drafts) || (part.is_vision && options.has_vision);
  });
  LeftOut drafts{.is_draft_head = true,
                 .what = fmt::format("the draft head {}", draft_head_name(files.kind.draft_head.value))};
  LeftOut vision{.is_vision = true, .what = "vision"};
  const auto count = [](LeftOut& part, const TensorInfo& tensor) {
    ++part.num_tensors;
    part.bytes += tensor.size_bytes();
  };
  for (const TensorInfo& tensor : files.checkpoint.tensors()) {
    const bool is_draft = is_draft_tensor(tensor.name), is_vision = is_vision_tensor(tensor.name);
    if (is_draft && reads_drafts && !has_drafts && (!is_vision || options.has_vision)) count(drafts, tensor);
    if (!is_vision || !options.has_vision || (is_draft && !has_drafts)) continue;
    count(vision, tensor);
    parts.beside.push_back(tensor);
  }
  if (drafts.num_tensors > 0) parts.left_out.push_back(drafts);
  if (vision.num_tensors > 0) parts.copied.push_back(vision);
  return parts;
}

/// Of every matrix of `table` that is NVFP4.
Fp4Proof prove_fp4(const std::vector<TensorSpec>& table, const Checkpoint& checkpoint,
                   const StorageFormats& formats, const std::function<bool()>& cancelled, ThreadPool& pool) {
  std::vector<const TensorSpec*> matrices;
  for (const TensorSpec& tensor : table) {
    if (tensor.is_matrix() && formats.of(tensor) == WeightFormat::kNvfp4) matrices.push_back(&tensor);
  }
  std::vector<std::string> reasons(matrices.size());
  Progress progress("looking at scales", "matrices", std::ssize(matrices));
  constexpr std::size_t kTogether = 256;
  for (std::size_t begin = 0; begin < matrices.size(); begin += kTogether) {
    if (cancelled && cancelled()) throw Cancelled("interrupted; nothing was left behind");
    progress.update(static_cast<std::int64_t>(begin), matrices[begin]->name);
    const std::size_t count = std::min(kTogether, matrices.size() - begin);
    pool.parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t i, int) {
      const std::size_t at = begin + static_cast<std::size_t>(i);
      reasons[at] = why_not_exact_fp4(stored_matrix(checkpoint, *matrices[at], formats));
    });
  }
  Fp4Proof proof{.num_matrices = std::ssize(matrices)};
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (reasons[i].empty()) {
      ++proof.num_exact;
    } else if (proof.why_not.empty()) {
      proof.why_not = fmt::format("{}: {}", matrices[i]->name, reasons[i]);
    }
  }
  return proof;
}

std::string proof_text(const Fp4Proof& proof) {
  if (proof.num_matrices == proof.num_exact)
    return fmt::format(
        "NVFP4 to FP4: {} of {} matrices are exact: all scales are powers of two, and both halves of every "
        "32 "
        "weights agree\n",
        proof.num_exact, proof.num_matrices);
  return fmt::format("NVFP4 to FP4: {} of {} matrices are exact, so experts stay as they are: {}\n",
                     proof.num_exact, proof.num_matrices, proof.why_not);
}

}  // namespace

bool ConvertReport::lossless() const {
  return std::all_of(changed.begin(), changed.end(),
                     [](const auto& entry) { return entry.second.num_exact == entry.second.num_tensors; });
}

ConvertReport convert_checkpoint(const fs::path& in, const fs::path& out, const ConvertOptions& options,
                                 ThreadPool& pool) {
  check_apart(in, out);
  const ModelFiles files = read_model_files(in);
  if (!files.kind.converts) fail("{}: {}", in.string(), files.kind.why_not);
  ModelConfig config = parse_config(files.config_text, files.config_label, stored_drafts(files.kind));
  const Checkpoint& checkpoint = files.checkpoint;
  check_tensors(config, checkpoint);
  ConvertReport report;
  if (checkpoint.is_foreign()) report.notes = files.kind.contradictions;
  Parts parts = parts_of(files, config.num_draft_blocks() > 0, options);
  report.left_out = left_out_text(parts.left_out);
  report.copied = left_out_text(parts.copied);
  if (!options.has_draft_head) config = without_drafts(std::move(config));
  report.from = detect_formats(config, checkpoint);
  ConvertOptions wanted = options;
  const std::vector<TensorSpec> table = tensor_table(config);
  if (options.experts == WeightFormat::kFp4) {
    report.fp4_proof = prove_fp4(table, checkpoint, report.from, options.cancelled, pool);
    if (report.fp4_proof.num_exact < report.fp4_proof.num_matrices) wanted.experts.reset();
  }
  report.to = target_formats(report.from, wanted, config.fp8_format());
  std::vector<TextFile> companions = companion_files(in);
  StagedFolder staged(out, options.force, names_of(companions));
  StreamPlan plan{.folder = staged.path(),
                  .table = table,
                  .beside = std::move(parts.beside),
                  .formats = report.to,
                  .max_shard_bytes = options.max_shard_bytes,
                  .other_files = std::move(companions),
                  .job = "convert",
                  .cancelled = options.cancelled};
  plan.other_files.push_back({"config.json", adapted_config(files, config, report.to, !plan.beside.empty())});
  ConvertingSource source(checkpoint, config, report, pool);
  const Checksums checksums = write_weights(plan, source);
  verify_weights(staged.path(), config, checksums, options.cancelled);
  staged.commit();
  std::erase_if(report.lossy_tensors,
                [](const auto& entry) { return entry.second.num_exact == entry.second.num_tensors; });
  report.num_tensors = static_cast<std::int64_t>(checksums.size());
  report.total_bytes = stored_bytes(plan.table, plan.formats);
  for (const TensorHeader& tensor : plan.beside) report.total_bytes += tensor.size_bytes();
  return report;
}

std::string report_text(const ConvertReport& report) {
  constexpr std::size_t kMaxShown = 20;
  std::string text =
      fmt::format("{} tensors, {:.3f} GB; experts {} -> {}, dense {} -> {}\n", report.num_tensors,
                  static_cast<double>(report.total_bytes) / 1e9, weight_format_name(report.from.experts),
                  weight_format_name(report.to.experts), weight_format_name(report.from.dense),
                  weight_format_name(report.to.dense));
  if (report.fp4_proof.num_matrices > 0) text += proof_text(report.fp4_proof);
  const auto line = [&text](std::string_view name, const RoundingLoss& loss) {
    text += fmt::format("  {:<16} {:>6} matrices, {} exact", name, loss.num_tensors, loss.num_exact);
    if (loss.num_exact < loss.num_tensors) {
      text += fmt::format("; relative error mean {:.2e}, max {:.2e}", loss.mean_relative_error(),
                          loss.max_relative_error);
    }
    text += '\n';
  };
  for (const auto& [role, loss] : report.changed) line(tensor_role_name(role), loss);
  if (!report.lossy_tensors.empty()) text += "lost of single tensors:\n";
  for (const auto& [name, loss] : report.lossy_tensors) line(name, loss);
  for (const std::string& note : report.notes) text += note + '\n';
  if (!report.copied.empty()) text += fmt::format("copied as they are, unread: {}\n", report.copied);
  if (!report.left_out.empty()) text += fmt::format("left out: {}\n", report.left_out);
  text += report.lossless()
              ? "lossless: every weight has the value it had\n"
              : "not lossless: mean error is sum |change| / sum |value|, max is of the largest value\n";
  if (!report.unexpected_losses.empty()) {
    text += fmt::format("{} matrices lost values in a conversion that is usually exact:\n",
                        report.unexpected_losses.size());
    const std::size_t shown = std::min(kMaxShown, report.unexpected_losses.size());
    for (std::size_t i = 0; i < shown; ++i) text += fmt::format("  {}\n", report.unexpected_losses[i]);
    if (shown < report.unexpected_losses.size()) text += "  ...\n";
  }
  text += "read back and verified\n";
  return text;
}

}  // namespace baleen
