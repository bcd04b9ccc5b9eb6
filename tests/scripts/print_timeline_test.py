#!/usr/bin/env python3
"""What scripts/print_timeline.py makes of kernels that overlap, of steps that were held up, of other GPUs."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/print_timeline.py"
EMBED, ROWS, INNER = ("_ZN6baleen4sm9012_GLOBAL__N_112embed_kernelEv", "_ZN6baleen4sm9014hc_rows_kernelILi4096ELb1EEEvv",
                      "_ZN6baleen4sm9012_GLOBAL__N_112inner_kernelILNS_12WeightFormatE3ELi3EEEvv")
# Begin and end in us: the second adds 14, the third, which ends within it, nothing.
STEP = [(EMBED, 0, 2), (INNER, 0.5, 16), (ROWS, 1, 6)]


class Timeline(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "timeline.csv"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, steps, gpu=0):
        """Steps a millisecond apart, each kernel that much longer; in no order, as CUPTI gives them."""
        lines = ["gpu,begin_ns,end_ns,blocks,threads,shared_bytes,kernel"]
        for number, (kernels, later) in enumerate(steps):
            for name, begin, end in reversed(kernels):
                at = 1_000_000 * number
                lines.append(f"{gpu},{at + int(1000 * begin)},{at + int(1000 * (end + later * (name != EMBED)))},8,256,64,{name}")
        self.file.write_text("\n".join(lines) + "\n")

    def run_script(self, *options):
        return subprocess.run([sys.executable, SCRIPT, self.file, *options], capture_output=True, text=True, check=False)

    def rows(self, *options):
        done = self.run_script(*options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_what_kernels_add_is_the_step(self):
        self.write([(STEP, 0)] * 4)
        head, _, *kernels = self.rows()
        self.assertEqual(head, "3 steps of 3 kernels, 16 us (median)")
        adds = {line.split()[0]: (float(line.split()[-4]), float(line.split()[-1])) for line in kernels}
        self.assertEqual(adds, {"embed_kernel": (2, 2), "inner_kernel<3,": (14, 14), "hc_rows_kernel<4096,": (0, 0)})
        self.assertTrue(kernels[0].startswith("inner_kernel<3, 3> "), kernels)

    def test_steps_that_were_held_up_do_not_count(self):
        self.write([(STEP, 0), (STEP, 0), (STEP, 400), (STEP, 0), (STEP[:2], 0), (STEP, 0)])
        self.assertEqual(self.rows()[0], "3 steps of 3 kernels, 16 us (median)")

    def test_in_the_order_of_a_step(self):
        self.write([(STEP, 0)] * 3)
        self.assertEqual([line.split("_kernel")[0] for line in self.rows("--order")[2:]], ["embed", "inner", "hc_rows"])

    def test_of_a_gpu_that_has_no_steps(self):
        self.write([(STEP, 0)] * 3, gpu=1)
        done = self.run_script()
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "GPU 0 of .* has fewer than two steps that begin with embed")
        self.assertEqual(len(self.rows("--gpu", "1")), 5)

    def test_what_is_no_timeline_gets_a_sentence(self):
        self.write([(STEP, 0)] * 3)
        whole = self.file.read_text()
        self.assertRegex(self.sentence(None), "No such file")
        self.assertRegex(self.sentence(""), "fewer than two steps")
        self.assertRegex(self.sentence("once upon a time\nthere was\n"), "is no timeline")
        self.assertRegex(self.sentence(whole[:whole.rindex(",8,")]), "is no timeline of libkernel_timeline.so, or is cut off")

    def sentence(self, text):
        self.file.unlink(missing_ok=True)
        if text is not None:
            self.file.write_text(text)
        done = self.run_script()
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        return done.stderr


if __name__ == "__main__":
    unittest.main()
