#!/usr/bin/env python3
"""compare_with_transformers.py BALEEN: logits beside those of Hugging Face transformers' deepseek_v4.

BALEEN is the program. For each --geometry (a preset of `baleen init`) a random checkpoint in the released
layout is written; its matrices are dequantised here, in NumPy, and given to transformers under its names;
both compute the logits of one random sequence in float32 on the CPU (`baleen logits --precision exact`,
with --device cuda on a GPU). Prints, of each geometry, the largest difference of a position's logits over
their norm, the largest of a single logit, and at how many positions the likeliest token is the same; ends
with 1 if one of the first is above --bound. Wants torch, transformers (written for 5.17) and NumPy; fetches
nothing. Draft heads are left out: transformers has none.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

GEOMETRIES = {"tiny-flash": "as Flash", "tiny-real-heads": "as Pro, heads of 512"}
STORED = {"F32": np.float32, "I64": np.int64, "BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E8M0": np.uint8,
          "I8": np.uint8}
FP8_BLOCK = 128
FP4_GROUP = 32

# Released names and transformers'; routed experts are stacked there (source: checkpoint specification, 5.2).
LAYER_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "hc_attn_fn": "attn_hc.fn", "hc_attn_base": "attn_hc.base", "hc_attn_scale": "attn_hc.scale",
    "hc_ffn_fn": "ffn_hc.fn", "hc_ffn_base": "ffn_hc.base", "hc_ffn_scale": "ffn_hc.scale",
    "attn.wq_a": "self_attn.q_a_proj", "attn.q_norm": "self_attn.q_a_norm", "attn.wq_b": "self_attn.q_b_proj",
    "attn.wkv": "self_attn.kv_proj", "attn.kv_norm": "self_attn.kv_norm", "attn.wo_a": "self_attn.o_a_proj",
    "attn.wo_b": "self_attn.o_b_proj", "attn.attn_sink": "self_attn.sinks",
    "attn.compressor.wkv": "self_attn.compressor.kv_proj",
    "attn.compressor.wgate": "self_attn.compressor.gate_proj",
    "attn.compressor.ape": "self_attn.compressor.position_bias",
    "attn.compressor.norm": "self_attn.compressor.kv_norm",
    "attn.indexer.wq_b": "self_attn.compressor.indexer.q_b_proj",
    "attn.indexer.weights_proj": "self_attn.compressor.indexer.scorer.weights_proj",
    "attn.indexer.compressor.wkv": "self_attn.compressor.indexer.kv_proj",
    "attn.indexer.compressor.wgate": "self_attn.compressor.indexer.gate_proj",
    "attn.indexer.compressor.ape": "self_attn.compressor.indexer.position_bias",
    "attn.indexer.compressor.norm": "self_attn.compressor.indexer.kv_norm",
    "ffn.gate": "mlp.gate", "ffn.gate.bias": "mlp.gate.e_score_correction_bias",
    "ffn.gate.tid2eid": "mlp.gate.tid2eid", "ffn.shared_experts.w1": "mlp.shared_experts.gate_proj",
    "ffn.shared_experts.w3": "mlp.shared_experts.up_proj",
    "ffn.shared_experts.w2": "mlp.shared_experts.down_proj",
}
TOP_NAMES = {"embed": "model.embed_tokens", "head": "lm_head", "norm": "model.norm",
             "hc_head_fn": "model.hc_head.hc_fn", "hc_head_base": "model.hc_head.hc_base",
             "hc_head_scale": "model.hc_head.hc_scale"}


# ------------------------------------------------------------------ the released layout
def read_safetensors(path):
    """{name: (dtype, array as stored)}"""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = (begin + offset for offset in entry["data_offsets"])
            stored = np.frombuffer(data[first:end], STORED[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = entry["dtype"], stored
    return tensors


def e4m3_values():
    """Of all codes; 127 and 255 are not numbers."""
    code = np.arange(256)
    sign, exponent, mantissa = np.where(code & 128, -1.0, 1.0), code >> 3 & 15, code & 7
    value = np.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where((code & 127) == 127, np.nan, sign * value).astype(np.float32)


E4M3 = e4m3_values()
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def scales(dtype, stored):
    return stored if dtype == "F32" else np.exp2(stored.astype(np.float64) - 127).astype(np.float32)


def dequantised(tensors, name):
    """float32, or int64 of tables of ids. FP8 has a scale for 128 x 128 values, FP4 one for 32 of a row."""
    dtype, stored = tensors[name]
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype in ("F32", "I64"):
        return stored
    scale = scales(*tensors[name.removesuffix("weight") + "scale"])
    if dtype == "F8_E4M3":
        blocks = scale.repeat(FP8_BLOCK, 0).repeat(FP8_BLOCK, 1)
        return E4M3[stored] * blocks[:stored.shape[0], :stored.shape[1]]
    low_first = np.stack([E2M1[stored & 15], E2M1[stored >> 4]], -1).reshape(stored.shape[0], -1)
    return low_first * scale.repeat(FP4_GROUP, 1)


# ------------------------------------------------------------------ transformers' names
def renamed(name):
    """A name that is no routed expert's."""
    stem, suffix = (name.removesuffix(".weight"), ".weight") if name.endswith(".weight") else (name, "")
    if not stem.startswith("layers."):
        return TOP_NAMES[stem] + suffix
    _, layer, rest = stem.split(".", 2)
    return f"model.layers.{layer}.{LAYER_NAMES[rest]}{suffix}"


def to_transformers(tensors):
    """{name: array} of the main model. Of a layer's routed experts w1 above w3 are one array, w2 another."""
    converted = {}
    for name in tensors:
        is_expert = ".ffn.experts." in name
        if not name.startswith("mtp.") and not name.endswith(".scale") and not is_expert:
            converted[renamed(name)] = dequantised(tensors, name)
        if is_expert and name.endswith(".experts.0.w1.weight"):
            prefix = name.removesuffix("0.w1.weight")
            if prefix.startswith("mtp."):
                continue
            count = sum(other.startswith(prefix) and other.endswith(".w1.weight") for other in tensors)
            gate, down, up = (
                np.stack([dequantised(tensors, f"{prefix}{e}.{w}.weight") for e in range(count)])
                for w in ("w1", "w2", "w3"))
            to = f"model.layers.{prefix.split('.')[1]}.mlp.experts."
            converted[to + "gate_up_proj"] = np.concatenate([gate, up], 1)
            converted[to + "down_proj"] = down
    return converted


def config_fields(released):
    """What DeepseekV4Config is given, written out: nothing is left to how a version reads older fields."""
    layers = released["num_hidden_layers"]
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    num_hash = released["num_hash_layers"]
    rotary_share = released["qk_rope_head_dim"] / released["head_dim"]
    yarn = {name: value for name, value in released["rope_scaling"].items() if name != "type"}
    same = ("vocab_size hidden_size moe_intermediate_size num_hidden_layers num_attention_heads "
            "num_key_value_heads head_dim q_lora_rank num_experts_per_tok n_routed_experts n_shared_experts "
            "scoring_func norm_topk_prob routed_scaling_factor max_position_embeddings rope_theta "
            "compress_rope_theta hc_mult hc_sinkhorn_iters hc_eps swiglu_limit sliding_window o_groups "
            "o_lora_rank index_n_heads index_head_dim index_topk hidden_act rms_norm_eps bos_token_id "
            "eos_token_id").split()
    return {name: released[name] for name in same} | {
        "tie_word_embeddings": False, "partial_rotary_factor": rotary_share,
        "layer_types": [kinds[ratio] for ratio in released["compress_ratios"][:layers]],
        "mlp_layer_types": ["hash_moe"] * num_hash + ["moe"] * (layers - num_hash),
        "rope_parameters": {
            "main": {"rope_type": "default", "rope_theta": released["rope_theta"],
                     "partial_rotary_factor": rotary_share},
            "compress": {**yarn, "rope_type": "yarn", "attention_factor": 1.0,
                         "rope_theta": released["compress_rope_theta"],
                         "partial_rotary_factor": rotary_share}}}


# ------------------------------------------------------------------ logits
def transformers_logits(folder, tokens):
    import torch
    from transformers import DeepseekV4Config, DeepseekV4ForCausalLM
    config = DeepseekV4Config(**config_fields(json.loads((folder / "config.json").read_text())))
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    torch.set_default_dtype(torch.float32)
    model = DeepseekV4ForCausalLM(config).eval()
    converted = to_transformers(read_safetensors(folder / "model.safetensors"))
    wanted = model.state_dict()
    for name in [n for n in converted if ".indexer.scorer." in n and n not in wanted]:
        converted[name.replace(".scorer.", ".")] = converted.pop(name)   # where earlier versions have it
    for name, array in converted.items():
        if name in wanted and tuple(wanted[name].shape) != array.shape:
            sys.exit(f"{name}: transformers wants {list(wanted[name].shape)}, the checkpoint gives "
                     f"{list(array.shape)}")
    # Tensors that transformers lacks or the checkpoint does not give end this with their names.
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in converted.items()})
    model = model.float()
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


def baleen_logits(baleen, folder, tokens, device):
    (folder / "tokens").write_text(" ".join(map(str, tokens)))
    subprocess.run([baleen, "logits", "--model", folder, "--precision", "exact", "--device", device, "--tokens",
                    folder / "tokens", "--out", folder / "logits.out"], check=True, stdout=subprocess.DEVNULL)
    return read_safetensors(folder / "logits.out")["logits"][1]


def compare(ours, theirs):
    """(largest difference of a row over its norm, largest of a logit, rows with the same likeliest token)"""
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    rows = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
    return rows.max(), np.abs(ours - theirs).max(), int((ours.argmax(1) == theirs.argmax(1)).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("baleen", type=pathlib.Path)
    parser.add_argument("--geometry", action="append", choices=GEOMETRIES,
                        help="may be repeated; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-tokens", type=int, default=420,
                        help="beyond the window, three blocks of 128 and top-k (default 420)")
    parser.add_argument("--bound", type=float, default=1e-5)
    parser.add_argument("--folder", type=pathlib.Path,
                        help="where checkpoints go and stay; default: gone afterwards")
    parser.add_argument("--device", default="cpu", help="of `baleen logits` (default cpu)")
    arguments = parser.parse_args()
    try:
        import torch
        import transformers
        from transformers import DeepseekV4ForCausalLM  # noqa: F401
    except ImportError as missing:
        sys.exit(f"{missing}; expected torch and a transformers with deepseek_v4 (5.17) beside NumPy")
    print(f"python {sys.version.split()[0]}, numpy {np.__version__}, torch {torch.__version__}, "
          f"transformers {transformers.__version__}", flush=True)
    version = subprocess.run([arguments.baleen, "--version"], check=True, capture_output=True, text=True)
    print(version.stdout, end="", flush=True)
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        parent = arguments.folder or pathlib.Path(temporary)
        for geometry in arguments.geometry or GEOMETRIES:
            folder = parent / geometry
            subprocess.run([arguments.baleen, "init", folder, "--preset", geometry, "--force",
                            "--seed", str(arguments.seed)], check=True, stdout=subprocess.DEVNULL)
            vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
            tokens = np.random.default_rng(4).integers(0, vocabulary, arguments.num_tokens).tolist()
            ours = baleen_logits(arguments.baleen, folder, tokens, arguments.device)
            relative, absolute, same = compare(ours, transformers_logits(folder, tokens))
            print(f"{geometry} ({GEOMETRIES[geometry]}), seed {arguments.seed}: {relative:.2e} of the norm, "
                  f"{absolute:.2e} of a logit, the same likeliest token at {same} of {len(tokens)} positions",
                  flush=True)
            worst = max(worst, relative if np.isfinite(relative) else np.inf)
    is_right = worst <= arguments.bound
    print(f"largest difference {worst:.2e}, bound {arguments.bound:.0e}: {'right' if is_right else 'WRONG'}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
