// Checkpoints that cannot be run: one sentence names each, with what was found and what is expected.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/model/written_releases.h"
#include "tests/support/releases.h"

namespace baleen {
namespace {

using test::EditedCheckpoint;

class RefusedReleases : public WrittenReleases {};

TEST_F(RefusedReleases, ForeignFormatsAreToldByName) {
  struct Format {
    const char* sentence;
    void (*put)(EditedCheckpoint&, const std::string&, std::int64_t, std::int64_t);
  };
  const Format formats[] = {
      {"routed experts are NVFP4 of compressed-tensors, which baleen does not read yet "
       "(layers.0.ffn.experts.0.w1: "
       "weight_scale F8_E4M3 [128, 16], weight_packed U8 [128, 128], weight_global_scale F32 [1]); expected "
       "MXFP4, "
       "NVFP4 as ModelOpt writes it, int4 of compressed-tensors, FP8 or BF16: take the checkpoint as "
       "DeepSeek publishes it",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight_packed", DType::kU8, {out, in / 2});
         c.add(stem + ".weight_scale", DType::kF8E4M3, {out, in / 16});
         c.add(stem + ".weight_global_scale", DType::kF32, {1});
       }},
      {"routed experts are GPTQ, ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".qweight", DType::kI32, {in / 8, out});
         c.add(stem + ".qzeros", DType::kI32, {in / 128, out / 8});
         c.add(stem + ".scales", DType::kF16, {in / 128, out});
       }},
      {"routed experts are AWQ, ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".qweight", DType::kI32, {in, out / 8});
         c.add(stem + ".qzeros", DType::kI32, {in / 128, out / 8});
         c.add(stem + ".scales", DType::kF16, {in / 128, out});
       }},
      {"routed experts are EXL3, ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".trellis", DType::kI16, {in / 16, out / 16, 64});
         c.add(stem + ".suh", DType::kF16, {in});
         c.add(stem + ".svh", DType::kF16, {out});
       }},
      {"routed experts are MLX, ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kU32, {out, in / 8});
         c.add(stem + ".scales", DType::kBF16, {out, in / 32});
         c.add(stem + ".biases", DType::kBF16, {out, in / 32});
       }},
      {"routed experts are bitsandbytes, ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kU8, {out * in / 2, 1});
         c.add(stem + ".weight.absmax", DType::kU8, {out * in / 64});
       }},
      {"routed experts are a format that is not known here (layers.0.ffn.experts.0.w1: weight I8 [128, 256], "
       "weight_scale F32 [128, 1]); ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kI8, {out, in});
         c.add(stem + ".weight_scale", DType::kF32, {out, 1});
       }},
      {"routed experts are a format that is not known here (layers.0.ffn.experts.0.w1: weight I8 [128, 128], "
       "scale F32 "
       "[128, 8]); ",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kI8, {out, in / 2});
         c.add(stem + ".scale", DType::kF32, {out, in / 32});
       }},
      {"routed experts are FP8, E8M0 scales of 32 x 32; blocks have 128 x 128 (",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kF8E4M3, {out, in});
         c.add(stem + ".scale", DType::kF8E8M0, {out / 32, in / 32});
       }},
      {"routed experts are FP8, F32 scales of 128 x 128 with scales named \"weight_scale_inv\", not "
       "\"scale\" (",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kF8E4M3, {out, in});
         c.add(stem + ".weight_scale_inv", DType::kF32, {out / 128, in / 128});
       }},
      {"routed experts are FP8, BF16 scales of 128 x 128; scales may be E8M0 or F32 (",
       [](EditedCheckpoint& c, const std::string& stem, std::int64_t out, std::int64_t in) {
         c.add(stem + ".weight", DType::kF8E4M3, {out, in});
         c.add(stem + ".scale", DType::kBF16, {out / 128, in / 128});
       }},
  };
  for (const Format& format : formats) {
    EditedCheckpoint checkpoint(preview());
    test::replace_experts(checkpoint, [&](const std::string& stem, std::int64_t out, std::int64_t in) {
      format.put(checkpoint, stem, out, in);
    });
    const std::string sentence = refusal(written(checkpoint));
    EXPECT_TRUE(sentence.starts_with(format.sentence)) << sentence << "\nexpected\n" << format.sentence;
  }
}

TEST_F(RefusedReleases, ForeignNamesAreTold) {
  EditedCheckpoint prefixed(preview());
  prefixed.rename([](const std::string& name) { return "model." + name; });
  EXPECT_EQ(
      refusal(written(prefixed)),
      "tensors have DeepSeek's names behind \"model.\" (tensor \"model.layers.0.attn.attn_sink\"); expected "
      "DeepSeek's own, as \"layers.0.attn.wq_a.weight\": take the checkpoint as DeepSeek publishes it");
  EditedCheckpoint transformers(preview());
  transformers.rename([](std::string name) {
    const auto replace = [&](const std::string& from, const std::string& to) {
      if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    };
    replace("attn.wq_a", "self_attn.q_a_proj");
    replace("ffn.experts", "mlp.experts");
    return "model." + name;
  });
  const std::string sentence = refusal(written(transformers));
  EXPECT_TRUE(sentence.starts_with(
      "tensors have the module names of Hugging Face transformers (tensor \"model.layers."))
      << sentence;
}

TEST_F(RefusedReleases, V41IsToldByTypeOrByTables) {
  // A V4 that says so is held to what V4.1 has: its blocks of scales.
  constexpr std::string_view kBlocks =
      "dense matrices are FP8, E8M0 scales of 128 x 128; blocks have 32 x 32 ";
  EditedCheckpoint checkpoint(preview());
  checkpoint.config["model_type"] = "deepseek_v41";
  const std::string sentence = refusal(written(checkpoint));
  EXPECT_TRUE(sentence.starts_with(kBlocks)) << sentence;
  EditedCheckpoint nameless(preview());
  nameless.config.erase("model_type");
  nameless.tensors.erase("hc_head_fn");
  nameless.add("layers.1.engram.q_weight", DType::kBF16, {4, 256});
  EXPECT_TRUE(refusal(written(nameless)).starts_with(kBlocks));
}

TEST_F(RefusedReleases, PrunedExpertsAreOneSentence) {
  EditedCheckpoint pruned(preview());
  pruned.erase_if([](const std::string& name) { return name.find(".experts.3.") != std::string::npos; });
  std::string sentence = refusal(written(pruned));
  EXPECT_NE(
      sentence.find("\n  routed experts: every layer has 3, config.json says 4 (\"n_routed_experts\"); "),
      std::string::npos)
      << sentence;
  EditedCheckpoint uneven(preview());
  uneven.erase_if([](const std::string& name) { return name.starts_with("layers.2.ffn.experts.1."); });
  sentence = refusal(written(uneven));
  EXPECT_NE(
      sentence.find("\n  routed experts: layers have from 1 to 4 of them without a gap, config.json says 4 "),
      std::string::npos)
      << sentence;
}

/// What a draft head lacks is missed, not left out, also of one that is not computed; what no head has is
/// named.
TEST_F(RefusedReleases, BrokenDraftHeads) {
  const auto expect_named = [this](const EditedCheckpoint& checkpoint, const std::string& sentence) {
    const std::string found = refusal(written(checkpoint));
    EXPECT_NE(found.find(sentence), std::string::npos) << found << "\nexpected\n" << sentence;
  };
  EditedCheckpoint broken(preview());
  broken.tensors.erase("mtp.0.enorm.weight");
  expect_named(broken, "tensor \"mtp.0.enorm.weight\": missing");
  EditedCheckpoint dspark(preview());
  test::make_dspark(dspark);
  for (const char* name :
       {"mtp.0.main_proj.scale", "mtp.1.ffn.shared_experts.w2.weight", "mtp.2.hc_head_base",
        "mtp.2.markov_head.markov_w2.weight", "mtp.2.confidence_head.proj.weight"}) {
    EditedCheckpoint less = dspark;
    less.tensors.erase(name);
    expect_named(less, fmt::format("tensor \"{}\": missing, config wants ", name));
  }
  for (const char* name :
       {"mtp.0.unknown.weight", "mtp.1.norm.weight", "mtp.1.main_norm.weight", "mtp.x.weight"}) {
    EditedCheckpoint more = dspark;
    more.add(name, DType::kBF16, {256});
    expect_named(more, fmt::format("tensor \"{}\" in ", name));
    expect_named(more, "BF16 [256], but the config has no such tensor");
  }
  EditedCheckpoint gap = dspark;
  gap.erase_if([](const std::string& name) { return name.starts_with("mtp.1."); });
  expect_named(gap, "tensor \"mtp.1.");
  EditedCheckpoint rank = dspark;
  rank.config["dspark_markov_rank"] = 16;
  expect_named(rank, "BF16 [512, 8], config wants BF16 [512, 16]");
  EditedCheckpoint targets = dspark;
  targets.config["dspark_target_layer_ids"] = {3, 4};
  expect_named(targets, "F8_E4M3 [256, 768], config wants F8_E4M3 [256, 512]");
}

TEST_F(RefusedReleases, FieldsOfDsparkAreReadWhereItsTensorsAre) {
  EditedCheckpoint dspark(preview());
  test::make_dspark(dspark);
  const auto refused = [this](const EditedCheckpoint& checkpoint) -> std::string {
    try {
      static_cast<void>(open_model_folder(written(checkpoint)));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EditedCheckpoint beyond = dspark;
  beyond.config["dspark_target_layer_ids"] = {3, 4, 5};
  EXPECT_NE(refused(beyond).find(
                "\"dspark_target_layer_ids\": expected ascending layers from 0 to 4, found [3, 4, 5]"),
            std::string::npos)
      << refused(beyond);
  EditedCheckpoint noise = dspark;
  noise.config["dspark_noise_token_id"] = 512;
  EXPECT_NE(refused(noise).find("\"dspark_noise_token_id\": expected a token below \"vocab_size\" 512"),
            std::string::npos)
      << refused(noise);
  EditedCheckpoint nameless = dspark;
  nameless.config.erase("dspark_target_layer_ids");
  EXPECT_NE(refused(nameless).find("\"dspark_target_layer_ids\" is missing"), std::string::npos)
      << refused(nameless);
}

TEST_F(RefusedReleases, ContradictoryTensorsAreRefused) {
  EditedCheckpoint both(preview());
  both.add("mtp.0.main_norm.weight", DType::kBF16, {256});
  EXPECT_EQ(refusal(written(both)),
            "tensors of two draft heads, tensor \"mtp.0.main_norm.weight\" beside tensor "
            "\"mtp.0.e_proj.scale\"; expected MTP's (as \"mtp.0.enorm.weight\") or DSpark's (as "
            "\"mtp.0.main_proj.weight\"), not both: take the checkpoint as DeepSeek publishes it");
  EditedCheckpoint neither(preview());
  neither.erase_if([](const std::string& name) {
    return name.starts_with("mtp.0.e_proj") || name.starts_with("mtp.0.h_proj") ||
           name.starts_with("mtp.0.enorm") || name.starts_with("mtp.0.hnorm");
  });
  std::string sentence = refusal(written(neither));
  EXPECT_TRUE(sentence.starts_with("tensors of a draft head that is not known here, as tensor \"mtp.0.attn."))
      << sentence;
  EditedCheckpoint engram(preview());
  engram.add("layers.1.engram.q_weight", DType::kBF16, {4, 256});
  sentence = refusal(written(engram));
  EXPECT_TRUE(sentence.starts_with(
      "tensor \"layers.1.engram.q_weight\" is DeepSeek-V4.1's, and the checkpoint says that it is V4 "
      "(config.json, \"model_type\": \"deepseek_v4\"): "))
      << sentence;
}

}  // namespace
}  // namespace baleen
