// config.json: every preset survives the round trip, and every kind of damage gets its sentence.
#include "model/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/model_folder.h"
#include "model/presets.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

/// The sentence with which `text` is refused; empty if it is accepted.
std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_config(text, "config.json"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Config, EveryPresetRoundTrips) {
  for (const Preset& preset : presets()) {
    const ModelConfig config = preset.config();
    // Of a DSpark head there is no word without tensors.
    const DraftBlocks blocks{config.draft_kind, config.num_draft_blocks()};
    EXPECT_EQ(parse_config(config_text(config), preset.name, blocks), config) << preset.name;
  }
}

TEST(Config, FormatsRoundTrip) {
  ModelConfig config = preset_config("tiny-flash");
  config.expert_format = WeightFormat::kBF16;
  config.dense_format = WeightFormat::kBF16;
  EXPECT_EQ(parse_config(config_text(config), "config.json"), config);
}

/// ModelOpt says it in "quantization_config", and leaves "expert_dtype".
TEST(Config, Nvfp4RoundTrips) {
  ModelConfig config = preset_config("tiny-flash");
  config.expert_format = WeightFormat::kNvfp4;
  const Json written = Json::parse(config_text(config));
  EXPECT_EQ(written["expert_dtype"], "fp4");
  EXPECT_EQ(written["quantization_config"]["moe_quant_algo"], "NVFP4");
  EXPECT_EQ(parse_config(config_text(config), "config.json"), config);
  config.dense_format = WeightFormat::kBF16;
  EXPECT_EQ(Json::parse(config_text(config))["expert_dtype"], "nvfp4");
  EXPECT_EQ(parse_config(config_text(config), "config.json"), config);
}

TEST(Config, LayerKindsOfTheReleasedModels) {
  const ModelConfig flash = preset_config("flash");
  EXPECT_EQ(flash.compress_ratios.size(), 44u);
  EXPECT_EQ(flash.num_layers_of(LayerKind::kSlidingWindow), 2);
  EXPECT_EQ(flash.num_layers_of(LayerKind::kCsa), 21);
  EXPECT_EQ(flash.num_layers_of(LayerKind::kHca), 20);
  EXPECT_EQ(flash.layer_kind(42), LayerKind::kCsa);
  EXPECT_EQ(flash.layer_kind(43), LayerKind::kSlidingWindow);
  const ModelConfig pro = preset_config("pro");
  EXPECT_EQ(pro.compress_ratios.size(), 62u);
  EXPECT_EQ(pro.num_layers_of(LayerKind::kSlidingWindow), 0);
  EXPECT_EQ(pro.num_layers_of(LayerKind::kCsa), 30);
  EXPECT_EQ(pro.num_layers_of(LayerKind::kHca), 31);
  EXPECT_EQ(pro.heads_per_group(), 8);
  EXPECT_EQ(pro.nope_dim(), 448);
  EXPECT_EQ(pro.hc_num_mixes(), 24);
}

TEST(Config, BundledModelLoads) {
  if (!std::filesystem::exists("models/stories/config.json")) GTEST_SKIP() << "no bundled model";
  EXPECT_EQ(load_config("models/stories").num_hidden_layers, 6);
}

TEST(Config, CutDown) {
  const ModelConfig cut = with_experts(with_layers(preset_config("flash"), 3), 4);
  EXPECT_EQ(cut.compress_ratios, (std::vector<std::int64_t>{0, 0, 4, 0}));
  EXPECT_EQ(cut.num_experts_per_tok, 4);
  EXPECT_NO_THROW(validate(cut, "cut"));
  EXPECT_EQ(with_layers(preset_config("flash"), 2).num_hash_layers, 2);
  EXPECT_THROW(with_layers(preset_config("flash"), 44), Error);
  EXPECT_THROW(with_experts(preset_config("flash"), 0), Error);
  EXPECT_THROW(preset_config("flsh"), Error);
}

TEST(Config, OptionalFieldsMayBeAbsent) {
  Json object = Json::parse(config_text(preset_config("tiny-flash")));
  for (const char* name : {"expert_dtype", "n_group", "topk_group", "topk_method", "hidden_act"})
    object.erase(name);
  EXPECT_EQ(parse_config(object.dump(), "config.json"), preset_config("tiny-flash"));
}

/// "num_nextn_predict_layers" is believed only of a config that stands alone and names no other head.
TEST(Config, MtpBlocksAreThoseOfTheTensors) {
  Json object = Json::parse(config_text(preset_config("tiny-flash")));
  EXPECT_EQ(parse_config(object.dump(), "config.json", DraftBlocks{}).num_nextn_predict_layers, 0);
  object["num_nextn_predict_layers"] = 3;
  EXPECT_EQ(
      parse_config(object.dump(), "config.json", DraftBlocks{DraftKind::kMtp, 1}).num_nextn_predict_layers,
      1);
  object["dspark_block_size"] = 5;
  EXPECT_EQ(parse_config(object.dump(), "config.json").num_nextn_predict_layers, 0);
  object["compress_ratios"].erase(5);
  EXPECT_NO_THROW(static_cast<void>(parse_config(object.dump(), "config.json")));
}

struct Damage {
  const char* field;  // a JSON pointer
  Json value;
  const char* expected;  // part of the sentence
};

TEST(Config, EveryDamageHasItsSentence) {
  const Damage damages[] = {
      {"/model_type", "deepseek_v3", "expected \"deepseek_v4\", found \"deepseek_v3\""},
      {"/model_type", "deepseek_v41", "\"text_config\": expected an object, as DeepSeek-V4.1 has it"},
      {"/hidden_size", "256", "expected a whole number, found \"256\""},
      {"/hidden_size", 256.0, "expected a whole number, found 256.0"},
      {"/hidden_size", nullptr, "found null"},
      {"/hidden_size", -256, "expected a number from 1 to"},
      {"/hidden_size", 0, "expected a number from 1 to"},
      {"/hidden_size", 18446744073709551615u, "expected a number from 1 to"},
      {"/hidden_size", 300, "\"hidden_size\" must be a multiple of 128, found 300"},
      {"/q_lora_rank", 100, "\"q_lora_rank\" must be a multiple of 128"},
      {"/moe_intermediate_size", 64, "\"moe_intermediate_size\" must be a multiple of 128"},
      {"/num_hidden_layers", 1'000'000'000, "expected a number from"},
      {"/num_hidden_layers", 6,
       "\"compress_ratios\" has 6 entries, 6 layers and 1 blocks of the draft head need 7"},
      {"/compress_ratios", 4, "expected a list of whole numbers"},
      {"/compress_ratios/1", "4", "expected a list of whole numbers"},
      {"/compress_ratios/1", 8, "entry 1: expected 0, 4 or 128, found 8"},
      {"/compress_ratios/5", 4, "entry 5: a draft head's block sees the window only"},
      {"/compress_ratios", Json::array(), "has 0 entries"},
      {"/o_groups", 3, "4 heads in 3 groups"},
      {"/o_lora_rank", 96, "\"o_lora_rank\" must be a multiple of 128, found 96"},
      {"/hc_mult", 2, "expected \"hc_mult\" 4, found 2"},
      {"/sliding_window", 256, "expected \"sliding_window\" 128, found 256"},
      {"/n_shared_experts", 2, "expected \"n_shared_experts\" 1"},
      {"/num_key_value_heads", 8, "expected 1, found 8"},
      {"/num_experts_per_tok", 9, "9 of 8"},
      {"/num_hash_layers", 6, "6 of 5"},
      {"/n_group", 3, "8 experts in 3 groups"},
      {"/topk_group", 2, "2 of 1"},
      {"/qk_rope_head_dim", 128, "\"qk_rope_head_dim\" below \"head_dim\""},
      {"/qk_rope_head_dim", 63, "\"qk_rope_head_dim\" must be a multiple of 32, found 63"},
      {"/head_dim", 160, "x \"head_dim\""},
      {"/index_head_dim", 64, "expected \"index_head_dim\" 128, found 64"},
      {"/rope_theta", -1.0, "\"rope_theta\": expected a number from"},
      {"/rope_theta", "10000", "expected a number, found"},
      {"/rope_scaling", nullptr, "\"rope_scaling\": expected an object"},
      {"/rope_scaling/type", "linear", "expected \"yarn\", found \"linear\""},
      {"/rope_scaling/factor", 0.5, "\"factor\": expected a number from 1"},
      {"/hc_eps", 0, "\"hc_eps\": expected a number from"},
      {"/norm_topk_prob", 1, "expected true or false, found 1"},
      {"/scoring_func", "relu", R"(expected "sqrtsoftplus" or "sigmoid" or "softmax", found "relu")"},
      {"/expert_dtype", "int3", R"(expected "bf16" or "fp8" or "fp4" or "nvfp4")"},
      {"/topk_method", "greedy", "expected \"noaux_tc\""},
      {"/eos_token_id", 512, "0 and 512 of 512"},
      {"/tie_word_embeddings", true, "expected false, found true"},
      {"/quantization_config", 8, "expected an object"},
      {"/quantization_config/weight_block_size", {64, 64}, "expected [128,128], found [64,64]"},
      {"/quantization_config/quant_method", "awq", "expected \"fp8\""},
  };
  const Json good = Json::parse(config_text(preset_config("tiny-flash")));
  for (const Damage& damage : damages) {
    Json object = good;
    object[Json::json_pointer(damage.field)] = damage.value;
    const std::string sentence = refusal(object.dump());
    EXPECT_NE(sentence.find(damage.expected), std::string::npos)
        << damage.field << ": " << (sentence.empty() ? "accepted" : sentence);
  }
}

TEST(Config, EveryRequiredFieldIsMissed) {
  const Json good = Json::parse(config_text(preset_config("tiny-flash")));
  for (const char* field : {"model_type", "vocab_size", "hidden_size", "num_hidden_layers", "compress_ratios",
                            "num_attention_heads", "head_dim", "rope_scaling", "n_routed_experts", "hc_eps",
                            "scoring_func", "norm_topk_prob"}) {
    Json object = good;
    object.erase(field);
    EXPECT_NE(refusal(object.dump()).find(fmt::format("\"{}\" is missing", field)), std::string::npos)
        << field;
  }
}

TEST(Config, NotJson) {
  EXPECT_NE(refusal("").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal("{\"model_type\": \"deepseek_v4\"").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[')).find("not a JSON object"), std::string::npos);
  EXPECT_THROW(static_cast<void>(load_config("no/such/folder")), Error);
}

}  // namespace
}  // namespace baleen
