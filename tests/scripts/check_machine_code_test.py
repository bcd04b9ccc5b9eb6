#!/usr/bin/env python3
"""check_machine_code_test.py PTXAS [MODULE]: scripts/check_machine_code.py finds what it is there for in made-up modules,
and nothing in the module."""
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check_machine_code.py"
PTXAS, *MODULES = sys.argv[1:]
KERNEL = """.version 8.0
.target {target}
.address_size 64
.visible .entry {name}(.param .u64 out) {bounds}
{{
  .reg .u64 %p; .reg .u32 %r<200>; .reg .pred %q;
  ld.param.u64 %p, [out];
  {code}
  st.global.u32 [%p], %r0;
  ret;
}}
"""
PLAIN = "mov.u32 %r0, %tid.x;"
# An array that is indexed by what is read cannot lie in registers.
INDEXED = """.local .align 4 .b8 places[64]; .reg .u64 %a<4>;
  ld.global.u32 %r1, [%p]; cvta.to.local.u64 %a0, %a0; mov.u64 %a1, places; and.b32 %r2, %r1, 15; mul.wide.u32 %a2, %r2, 4;
  add.u64 %a3, %a1, %a2; st.local.u32 [%a3], %r1; st.local.u32 [%a1], %r2; ld.local.u32 %r0, [%a3];"""


def kernel(code=PLAIN, target="sm_80", name="product_kernel", bounds=".maxntid 256, 1, 1"):
    return KERNEL.format(code=code, target=target, name=name, bounds=bounds)


def module_of(ptx):
    """A 64-bit ELF file whose .nv_fatbin holds the PTX, as nvcc lays it out without compression."""
    source = b"made_up.cu\0".ljust(16, b"\0")
    text = ptx.encode() + b"\0" * (8 - len(ptx) % 8)
    part = struct.pack("<HHIQIIIIIIQQQ", 1, 0x101, 64 + len(source), len(text), 0, 0, 0, 80, 64, 11, 0, 0, 0)
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(part) + len(source) + len(text)) + part + source + text
    names = b"\0.shstrtab\0.nv_fatbin\0"
    begin = 64 + 3 * 64
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 1)
    section = struct.Struct("<IIQQQQIIQQ").pack
    return (header + bytes(64) + section(1, 3, 0, 0, begin, len(names), 0, 0, 1, 0)
            + section(11, 1, 0, 0, begin + len(names), len(fatbin), 0, 0, 8, 0) + names + fatbin)


class MachineCode(unittest.TestCase):
    def look(self, module, *options):
        return subprocess.run([sys.executable, SCRIPT, module, "--ptxas", PTXAS, *options], capture_output=True, text=True, check=False)

    def look_at_ptx(self, ptx, *options):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder) / "made_up.so"
            module.write_bytes(module_of(ptx))
            return self.look(module, *options)

    def expect_complaint(self, ptx, *words):
        done = self.look_at_ptx(ptx, "--gpus", "80,89")
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_plain_kernel_passes_on_every_gpu(self):
        done = self.look_at_ptx(kernel())
        self.assertEqual(done.returncode, 0, done.stderr)
        for gpu in (80, 86, 89, 100, 120):
            self.assertIn(f"sm_{gpu}: 1 kernels, of its PTX", done.stdout)

    def test_an_instruction_of_later_gpus_is_named(self):
        wait = "griddepcontrol.wait; mov.u32 %r0, 0;"
        self.expect_complaint(kernel(wait), "griddepcontrol", "no machine code for sm_80")
        for code, name in (("wgmma.fence.sync.aligned;", "wgmma.fence"), ("setmaxnreg.inc.sync.aligned.u32 40;", "setmaxnreg.inc"),
                           ("cp.async.bulk.commit_group;", "cp.async.bulk"), ("mov.u32 %r0, %cluster_ctaid.x;", "%cluster_ctaid"),
                           ("mbarrier.try_wait.shared.b64 %q, [%r0], 0;", "mbarrier.try_wait")):
            self.expect_complaint(kernel(code), f"made_up.cu: {name}")

    def test_a_comment_and_an_asynchronous_copy_are_none(self):
        copy = "// wgmma would be faster\n  mov.u32 %r0, 0; cp.async.wait_all;"
        self.assertEqual(self.look_at_ptx(kernel(copy), "--gpus", "80").returncode, 0)

    def test_another_target_is_refused(self):
        self.expect_complaint(kernel(target="sm_90"), "PTX for sm_90; expected sm_80")

    def test_local_memory_is_refused(self):
        self.expect_complaint(kernel(INDEXED), "product_kernel on sm_80: 64 bytes of local memory", "expected at most 0",
                              "product_kernel on sm_89")

    def test_registers_that_a_block_does_not_have_are_refused(self):
        loads = [f"ld.volatile.global.u32 %r{i}, [%p+{4 * i}];" for i in range(100)]
        stores = [f"st.volatile.global.u32 [%p+{4 * i}], %r{99 - i};" for i in range(100)]
        code = "\n".join([*loads, *stores])
        self.expect_complaint(kernel(code, bounds=""), "registers for each of 1024 threads", "__launch_bounds__")
        self.assertEqual(self.look_at_ptx(kernel(code), "--gpus", "80").returncode, 0)

    def test_a_gpu_that_ptxas_does_not_know_is_said_to_be_unknown(self):
        done = self.look_at_ptx(kernel(), "--gpus", "80,777")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sm_777: unknown to", done.stdout)

    def test_a_file_without_kernels_is_refused(self):
        done = self.look("/bin/true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no kernels in it", done.stderr)

    def test_an_allowance_without_its_kernel_is_refused_of_a_whole_module(self):
        done = self.look_at_ptx(kernel(), "--gpus", "80", "--whole")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no such kernel, remove it", done.stderr)

    @unittest.skipUnless(MODULES, "no module was built")
    def test_the_module_of_portable_kernels(self):
        done = self.look(MODULES[0], "--whole")
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
