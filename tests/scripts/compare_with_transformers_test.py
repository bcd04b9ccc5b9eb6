#!/usr/bin/env python3
"""What compare_with_transformers.py does without torch: matrices, names and fields for transformers."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("numpy") is None:
    print("no NumPy here: skipped")
    sys.exit(77)

import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BALEEN = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "scripts"))
import compare_with_transformers as compared  # noqa: E402


def run_baleen(*arguments):
    subprocess.run([BALEEN, *arguments], check=True, stdout=subprocess.DEVNULL)


def bf16(tensors, name):
    return (tensors[name][1].astype(np.uint32) << 16).view(np.float32)


class Conversion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        run_baleen("init", cls.folder / "made", "--preset", "tiny-flash")
        cls.tensors = compared.read_safetensors(cls.folder / "made" / "model.safetensors")
        cls.config = json.loads((cls.folder / "made" / "config.json").read_text())
        cls.converted = compared.to_transformers(cls.tensors)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_matrices_are_those_of_convert(self):
        plain = self.folder / "bf16"
        run_baleen("convert", self.folder / "made", plain, "--experts", "bf16", "--dense", "bf16")
        want = compared.read_safetensors(plain / "model.safetensors")
        for name in want:
            if self.tensors[name][0] in ("F8_E4M3", "I8"):
                matrix = compared.dequantised(self.tensors, name)
                np.testing.assert_array_equal(matrix, bf16(want, name), name)

    def test_scales_of_f32_multiply(self):
        codes = np.full((130, 256), 0x38, np.uint8)   # 1.0
        scale = np.array([[1, 3], [0.5, 7]], np.float32)
        matrix = compared.dequantised({"w.weight": ("F8_E4M3", codes), "w.scale": ("F32", scale)}, "w.weight")
        self.assertEqual([matrix[0, 0], matrix[0, 128], matrix[128, 0], matrix[129, 255]], [1, 3, 0.5, 7])

    def test_every_tensor_of_the_main_model_has_a_name(self):
        layers, experts = self.config["num_hidden_layers"], self.config["n_routed_experts"]
        of_main = sum(not n.startswith("mtp.") and not n.endswith(".scale") for n in self.tensors)
        self.assertEqual(len(self.converted), of_main - layers * (3 * experts - 2))
        self.assertEqual({n.split(".")[0] for n in self.converted}, {"model", "lm_head"})
        d, width = self.config["hidden_size"], self.config["moe_intermediate_size"]
        for layer in range(layers):
            prefix = f"model.layers.{layer}."
            routed = prefix + "mlp.experts."
            self.assertEqual(self.converted[routed + "gate_up_proj"].shape, (experts, 2 * width, d))
            self.assertEqual(self.converted[routed + "down_proj"].shape, (experts, d, width))
            is_hash = layer < self.config["num_hash_layers"]
            self.assertEqual(prefix + "mlp.gate.tid2eid" in self.converted, is_hash)
            self.assertEqual(prefix + "mlp.gate.e_score_correction_bias" in self.converted, not is_hash)
            ratio = self.config["compress_ratios"][layer]
            self.assertEqual(prefix + "self_attn.compressor.kv_norm.weight" in self.converted, ratio != 0)
            indexer = prefix + "self_attn.compressor.indexer."
            self.assertEqual(indexer + "q_b_proj.weight" in self.converted, ratio == 4)

    def test_gate_is_above_up(self):
        stacked = self.converted["model.layers.3.mlp.experts.gate_up_proj"][5]
        width = self.config["moe_intermediate_size"]
        for i, name in enumerate(("w1", "w3")):
            matrix = compared.dequantised(self.tensors, f"layers.3.ffn.experts.5.{name}.weight")
            np.testing.assert_array_equal(stacked[i * width:(i + 1) * width], matrix)

    def test_fields(self):
        fields = compared.config_fields(self.config)
        layers = self.config["num_hidden_layers"]
        self.assertEqual([len(fields["layer_types"]), len(fields["mlp_layer_types"])], [layers, layers])
        self.assertEqual(fields["layer_types"][:3], ["sliding_attention", "compressed_sparse_attention",
                                                     "heavily_compressed_attention"])
        self.assertEqual(fields["rope_parameters"]["compress"]["factor"], 16)
        self.assertNotIn("factor", fields["rope_parameters"]["main"])

    def test_differences(self):
        ours = np.array([[3, 4], [0, 1]], np.float32)
        relative, absolute, same = compared.compare(ours + np.array([[0, 0.5], [0, 0]], np.float32), ours)
        self.assertAlmostEqual(relative, 0.1)
        self.assertAlmostEqual(absolute, 0.5)
        self.assertEqual(same, 2)
        self.assertEqual(compared.compare(ours[::-1], ours)[2], 2)
        self.assertEqual(compared.compare(ours[:, ::-1], ours)[2], 0)

    def test_without_torch_it_says_what_it_wants(self):
        program = ("import sys; sys.modules['torch'] = None; sys.argv = ['x', 'baleen']; "
                   f"sys.path.insert(0, {str(ROOT / 'scripts')!r}); "
                   "import compare_with_transformers; compare_with_transformers.main()")
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("expected torch and a transformers with deepseek_v4", ended.stderr)


if __name__ == "__main__":
    unittest.main()
