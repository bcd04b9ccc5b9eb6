// Makes stories.jsonl with Hugging Face's own tokenizer for JavaScript. From the repository root:
//   npm install --prefix /tmp/golden @huggingface/tokenizers@0.2.0
//   cp tests/tokenizer/goldens/make_stories.mjs /tmp/golden/
//   node /tmp/golden/make_stories.mjs models/stories > tests/tokenizer/goldens/stories.jsonl
import { Tokenizer } from "@huggingface/tokenizers";
import fs from "fs";

const texts = [
  "Once upon a time, a hedgehog called Whisker lived in Holly Woods.",
  "\"How brave you are!\" he said. Whisker smiled a secret smile.",
  "Don't stop; we'll see what it's about. They've gone, I'm here, he'd know.",
  " leading", "trailing ", "  two  spaces   three    ", "\n\n\nlines\r\n\r\n\tTabs\t\t", " \n \n x", "\u00a0x\u2003y\u3000z\u0085w",
  "1234567890 12 345 6789 3.14159e-10", "$100.00 €50 £20 ¥30 ½ ¼ Ⅷ ①②③",
  "ALLCAPS camelCase snake_case kebab-case", "def f(x):\n    return x**2  # comment\n", "#include <vector>\nint main() { return 0; }\n",
  "https://example.com/path?query=1&x=%20#frag", "{\"name\": \"Otto\", \"age\": 3, \"friends\": [\"Ivy\", null]}",
  "你好，世界！这是一个测试。", "日本語のテキストとカタカナ", "한국어 텍스트", "Привет мир", "مرحبا بالعالم", "नमस्ते दुनिया",
  "mixed中文English混合123数字", "e\u0301 combining \u0300\u0301 only marks", "👩‍👩‍👧‍👦 family 🇨🇳 flag 😀💩",
  "\ufeffBOM", "\u0000\u0001\u0002 control", "a\u200bb\u180ec",
  "<｜begin▁of▁sentence｜><｜User｜>Tell me a story.<｜Assistant｜><think>A plan.</think>A story.<｜end▁of▁sentence｜>",
  "<｜User|> <think <｜begin▁of▁sentence｜ </think>>", "｜DSML｜ partial ｜DSML",
  "<｜DSML｜invoke name=\"get_weather\">\n</｜DSML｜invoke>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "one\n\n\n   two", "x".repeat(130) + "the".repeat(60), "!?!?...;;;--==>>",
];
const folder = process.argv[2];
const load = (name) => JSON.parse(fs.readFileSync(`${folder}/${name}`, "utf8"));
const tokenizer = new Tokenizer(load("tokenizer.json"), load("tokenizer_config.json"));
for (const text of texts) {
  const ids = tokenizer.encode(text, { add_special_tokens: false }).ids;
  const decoded = tokenizer.decode(ids, { skip_special_tokens: false, clean_up_tokenization_spaces: false });
  console.log(JSON.stringify({ text, ids, decoded }));
}
