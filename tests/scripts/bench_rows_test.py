#!/usr/bin/env python3
"""The rows of bench/rows.json, and how their values are found, predicted and judged."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import bench_rows  # noqa: E402
import calibrate_messages  # noqa: E402
import measure_rows  # noqa: E402
import predict_rows  # noqa: E402

STEP = {"id": "step", "title": "a step", "devices": [2], "num_devices": 2, "kind": "decode", "model": "flash", "must": 4,
        "aim": 2, "unit": "ms a token", "clients": None, "bench": "{gpus} --tp {n} --at 4096 --decode 64",
        "kept": [{"file": "old-x{n}.jsonl", "where": {"ranks": "{n}", "phases.0.phase": "decode"}}]}
DECODED = {"ranks": 2, "phases": [{"phase": "decode", "seconds": 0.3, "tokens": 60}]}


class Rows(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.results = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, *lines):
        (self.results / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_every_row_of_the_table_can_be_asked_for(self):
        for count in (1, 2, 4, 8):
            _, rows = bench_rows.load_rows(count)
            self.assertEqual(len({row["id"] for row in rows}), len(rows))
            for row in rows:
                self.assertIn(row["kind"], ("decode", "prefill", "closed", "message"))
                self.assertEqual(row["kind"] == "closed", bool(row["clients"]), row["id"])
                if row["kind"] != "message":
                    words = measure_rows.bench_arguments(row, (row["clients"] or [0])[0], rehearse=False)
                    self.assertFalse([word for word in words if "{" in word])

    def test_values_by_unit(self):
        self.assertAlmostEqual(bench_rows.bench_value(STEP, DECODED), 5)
        self.assertAlmostEqual(bench_rows.bench_value({**STEP, "unit": "tokens/s"}, DECODED), 200)
        self.assertAlmostEqual(bench_rows.bench_value({**STEP, "unit": "ms"}, DECODED), 300)
        self.assertAlmostEqual(bench_rows.bench_value({"kind": "message", "unit": "us"}, {"median_us": "2.66"}), 2.66)

    def test_new_results_go_before_kept_ones(self):
        self.assertIsNone(bench_rows.measured(STEP, self.results))
        self.write("old-x2.jsonl", {**DECODED, "ranks": 3}, {**DECODED, "phases": [{"phase": "prefill"}]})
        self.assertIsNone(bench_rows.measured(STEP, self.results), "others' lines")
        self.write("old-x2.jsonl", DECODED)
        self.assertEqual(bench_rows.measured(STEP, self.results)[1], "old-x2.jsonl")
        self.write("rows-h200-x2.jsonl", {"id": "step", "clients": 0, "refused": "no such plan"})
        self.assertEqual(bench_rows.measured(STEP, self.results)[1], "old-x2.jsonl")
        self.assertEqual(bench_rows.refusal(STEP, self.results), "no such plan")
        self.write("rows-h200-x2.jsonl", {"id": "step", "clients": 0, "phases": [{"seconds": 0.1, "tokens": 50}]})
        self.assertEqual(bench_rows.measured(STEP, self.results), (2.0, "rows-h200-x2.jsonl"))

    def test_verdicts(self):
        for value, said in ((1.9, "aim reached"), (3, "must reached"), (5, "must missed by 25 %")):
            self.assertEqual(bench_rows.verdict(STEP, value, 4, 2), said)
        more = {**STEP, "unit": "tokens/s"}
        for value, said in ((120, "aim reached"), (60, "must reached"), (40, "must missed by 20 %")):
            self.assertEqual(bench_rows.verdict(more, value, 50, 110), said)
        self.assertEqual(bench_rows.verdict(STEP, 3, None, 2), "aim missed by 50 %")
        self.assertEqual(bench_rows.verdict(STEP, 3, None, None), "")

    def test_limits_in_times_of_another_kernel(self):
        row = {**STEP, "kind": "message", "unit": "us", "must_times": 2, "aim_times": 4,
               "against": [{"file": "x.csv", "where": {"kernel": "other"}}]}
        self.assertEqual(bench_rows.limits(row, self.results), (None, None))
        (self.results / "x.csv").write_text("kernel,median_us\nother,40\n")
        self.assertEqual(bench_rows.limits(row, self.results), (20, 10))

    def test_a_rehearsal_is_small_and_on_the_cpu(self):
        words = measure_rows.bench_arguments(STEP, 0, rehearse=True)
        self.assertEqual(words[:3], ["bench", "--model", measure_rows.SMALL_MODEL])
        self.assertEqual(words[words.index("--at") + 1], str(measure_rows.SMALL["--at"]))
        self.assertEqual(words[words.index("--device") + 1], "cpu")
        self.assertNotIn("--devices", words)
        self.assertIn("--devices", measure_rows.bench_arguments(STEP, 0, rehearse=False))

    def test_measuring_goes_on_where_it_was(self):
        out, program = self.results / "rows.jsonl", self.results / "program"
        program.write_text("#!/bin/sh\necho \"$@\" >>calls\n"
                           "echo '{\"phases\": [{\"seconds\": 1, \"tokens\": 10}]}'\n")
        program.chmod(0o755)
        call = [sys.executable, str(ROOT / "scripts/measure_rows.py"), "--program", str(program), "--num-devices", "2",
                "--out", str(out), "--rows", "decode"]
        for _ in range(2):
            self.assertEqual(subprocess.run(call, cwd=self.results, capture_output=True).returncode, 0)
        self.assertEqual(len((self.results / "calls").read_text().splitlines()), 1)
        program.write_text("#!/bin/sh\necho 'cannot do that' >&2; exit 1\n")
        out.unlink()
        self.assertEqual(subprocess.run(call, cwd=self.results, capture_output=True).returncode, 1)
        self.assertEqual(json.loads(out.read_text())["refused"], "cannot do that")

    def test_tables_name_what_is_calibrated_and_what_is_blind(self):
        self.write("old-x2.jsonl", DECODED)
        made = [{"id": "step", "title": "a step", "clients": 0, "predicted": 4.5, "bound": "memory 90 %", "calibrated": False,
                 "measured_before": True}]
        lines = predict_rows.table([STEP], made, [self.results])
        self.assertIn("-10.0 %", lines[1])
        self.assertIn("must missed by 25 %", lines[1])
        self.assertNotIn("blind", lines[1])
        self.assertIn("mean error 10.0 %", lines[2])
        blind = predict_rows.table([STEP], [{**made[0], "measured_before": False}], [self.results / "none"])
        self.assertIn("blind", blind[1])

    def test_added_predictions_leave_earlier_ones_as_they_were(self):
        out, program = self.results / "predicted.jsonl", self.results / "program"
        answer = {"workload": {"decode": True, "tokens_per_step": 1, "query_length": 1}, "step_seconds": 0.01,
                  "bound_seconds": {"memory": 0.01}, "memory": [{"bytes": {"weights": 1}, "host_experts": 0}]}
        program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
        program.chmod(0o755)
        earlier = {"id": "decode-even", "title": "even", "clients": 0, "predicted": 1.0, "bound": "", "calibrated": False,
                   "measured_before": False, "date": "2026-01-01"}
        self.write("predicted.jsonl", earlier)
        call = [sys.executable, str(ROOT / "scripts/predict_rows.py"), "--program", str(program), "--num-devices", "1",
                "--out", str(out), "--add"]
        self.assertEqual(subprocess.run(call, capture_output=True).returncode, 0)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        self.assertEqual(lines[0], earlier)
        _, rows = bench_rows.load_rows(1)
        self.assertEqual({line["id"] for line in lines}, {row["id"] for row in rows})
        added = next(line for line in lines if line["id"] == "v41-host")
        self.assertEqual(added["predicted"], 100)

    def test_messages_by_what_a_rank_sends(self):
        path = self.results / "ranks.csv"
        path.write_text("kernel,shape,median_us,machine,revision,date\n"
                        "all_reduce sm90/peers,1048576 bytes on 4 ranks,20,m,r,d\n"
                        "all_reduce sm90/peers,1024 bytes on 4 ranks,2,m,r,d\n"
                        "all_reduce NCCL,1024 bytes on 4 ranks,9,m,r,d\n"
                        "dispatch sm90/peers,10 tokens a rank on 4 ranks,5,m,r,d\n")
        points, ranks, origin = calibrate_messages.read_points(path)
        self.assertEqual((ranks, origin), (4, "m, d, revision r"))
        self.assertEqual(sorted(points["all_reduce"]), [(3072, 2e-6), (1.5 * 1048576, 2e-5)])
        self.assertEqual(points["dispatch"], [(10 * 6 * (4096 + 128) * 3 / 4, 5e-6)])


if __name__ == "__main__":
    unittest.main()
