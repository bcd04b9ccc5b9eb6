#!/usr/bin/env python3
"""check_machine_code.py MODULE [--whole] [--ptxas PROGRAM] [--gpus 80,86,...]: looks at the machine code that GPUs of these
compute capabilities run of a module of portable kernels (build/release/src/app/baleen_sm80.so). What the module does not
hold is made of its PTX, as the driver would. Prints a line for each GPU; fails for

- PTX for more than compute capability 8.0, or an instruction that only later GPUs have;
- a GPU that some kernel has no machine code for;
- a kernel with local memory (spilled registers, arrays that are no registers) beyond LOCAL_MEMORY;
- a kernel whose block cannot have all its registers, or that has more static shared memory than 48 KiB.

A GPU that ptxas does not know is said to be unknown: its users get what their driver makes of the PTX."""
import argparse
import concurrent.futures
import ctypes
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass

# Bytes of local memory a thread that a kernel may have on any of the GPUs, and why. All others have none.
LOCAL_MEMORY = {
    # Weights of the next slices on their way, and sums of a tile's tokens: 255 registers do not hold both.
    "few_kernel<1, false, 1>": 24,
    "few_kernel<2, false, 2>": 40,
    "few_kernel<3, false, 2>": 72,
    "inner_few_kernel<4, 1>": 56,
    "down_few_kernel<4, 1>": 8,
    # A few addresses, beside sums in registers.
    "inner_many_kernel<4>": 40,
    "down_many_kernel<4>": 48,
    "down_many_kernel<2>": 16,
    "hc_products_kernel<true, 0>": 8,
    "attention_any_kernel<V32Row>": 8,
    # Attention: 192 registers hold sums and queries. (0: V4's rows, 2: V4.1's)
    "attention_tiles_kernel<0>": 128,
    "attention_tiles_kernel<2>": 104,
    "gather_kernel<2>": 8,
    # As many blocks on a multiprocessor as hide memory: registers are cut to 64.
    "stated_down_few_kernel<false>": 104,
    "stated_down_few_kernel<true>": 104,
    "stated_inner_few_kernel<false>": 72,
    "stated_inner_few_kernel<true>": 96,
    # 32 tokens' sums beside the codes of a slice.
    "dequantised_kernel<Formats<5, 2, 128>, 32, false>": 112,
    "dequantised_kernel<Formats<5, 2, 128>, 32, true>": 112,
    # Codes on their way, two pieces of tokens a thread.
    "dequantised_kernel<Formats<3, 3, 32>, 8, true>": 8,
    "dequantised_kernel<Formats<4, 3, 32>, 8, true>": 8,
    # Addresses, beside sums in registers, of weights and of tokens with scales of their own.
    "many_groups_kernel<3, false>": 72,
    "many_groups_kernel<3, true>": 72,
    "many_groups_kernel<4, false>": 72,
    "many_groups_kernel<4, true>": 72,
    # Once a block, before and behind messages to other GPUs, which take far longer.
    "staged_dispatch_kernel": 40,
    "push_rows": 8,
    "norm_kv_store_kernel": 8,
    # A few addresses, once a call.
    "dispatch_kernel<CodeRows<ProductOrder, 128> >": 24,
    "dispatch_kernel<CodeRows<ProductOrder, 32> >": 16,
    "dispatch_kernel<CodeRows<OrderOfInputs, 128> >": 16,  # on sm_120: some words of a plan, once a launch
}

LEAST_GPU = 80
# Of 8.9 and later. ptxas refuses them for 8.0 too; this names them.
LATER_INSTRUCTIONS = re.compile(
    r"\b(?:wgmma|tcgen05|setmaxnreg|griddepcontrol|multimem|tensormap|stmatrix|mapa|getctarank|st\.async|red\.async|"
    r"cp\.async\.bulk|cp\.reduce\.async|barrier\.cluster|elect\.sync|fence\.proxy|fence\.mbarrier_init|"
    r"mbarrier\.(?:try_wait|expect_tx|complete_tx)|mbarrier\.arrive\.expect_tx|"
    r"(?:mma|cvt)\.[\w.:]*e[245]m[123]\w*)\b[\w.:]*|%(?:cluster_\w+|clusterid|nclusterid|is_explicit_cluster)\b"
    r"|\.shared::cluster\b|\.(?:reqnctapercluster|explicitcluster|maxclusterrank)\b")

FATBIN_MAGIC, PTX, MACHINE_CODE = 0xBA55ED50, 1, 2
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Attributes of .nv.info, with a symbol and a number each; of .nv.info.<kernel>, with three numbers.
REGISTERS, FRAME_BYTES = 0x2F, 0x11
MAX_THREADS = 0x05
REGISTERS_OF_BLOCK, MOST_THREADS = 64 << 10, 1024
STATIC_SHARED_BYTES, RESERVED_SHARED_BYTES = 48 << 10, 1 << 10  # what ptxas reserves from 9.0 on


class Refusal(Exception):
    """The module cannot be looked at."""


@dataclass
class Part:
    """What one source file became: PTX, or machine code for one GPU."""
    kind: int
    gpu: int
    source: str
    content: bytes


@dataclass
class Kernel:
    name: str
    registers: int
    local_bytes: int
    shared_bytes: int
    threads: int  # that a block may have


class Elf:
    """Sections and symbols of a 64-bit ELF file in memory."""

    def __init__(self, content, where):
        if content[:5] != b"\x7fELF\x02":
            raise Refusal(f"{where}: not a 64-bit ELF file")
        self.content = content
        table, = struct.unpack_from("<Q", content, 0x28)
        size, count, names = struct.unpack_from("<HHH", content, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", content, table + i * size) for i in range(count)]
        self.sections = [(self._string(headers[names][4] + header[0]), header) for header in headers]

    def _string(self, at):
        return self.content[at:self.content.index(b"\0", at)].decode()

    def section(self, name):
        """(bytes in the file, size): zeros are not in the file."""
        for found, header in self.sections:
            if found == name:
                return self.content[header[4]:header[4] + (0 if header[1] == 8 else header[5])], header[5]
        return b"", 0

    def symbols(self):
        _, table = next(section for section in self.sections if section[0] == ".symtab")
        strings = self.sections[table[6]][1][4]
        return [self._string(strings + struct.unpack_from("<I", self.content, table[4] + 24 * i)[0])
                for i in range(table[5] // 24)]


def unpacked(content, size):
    """nvcc compresses parts of a module, by zstd from toolkit 13.0 on."""
    if not content.startswith(ZSTD_MAGIC):
        raise Refusal("a part of the module is compressed by another method than zstd: it was built by an nvcc before 13.0, "
                      "build it with a later one")
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    result = ctypes.create_string_buffer(size)
    if zstd.ZSTD_decompress(result, size, content, len(content)) != size:
        raise Refusal(f"a part of the module does not decompress to the {size} bytes that it states")
    return result.raw


def parts_of(module):
    """All parts of a module's fat binaries, which lie one behind the other."""
    section, _ = Elf(module.read_bytes(), module).section(".nv_fatbin")
    parts, at = [], 0
    while at + 16 <= len(section):
        magic, _, header_bytes, bytes_behind = struct.unpack_from("<IHHQ", section, at)
        if magic != FATBIN_MAGIC:
            at += 8
            continue
        part, end = at + header_bytes, at + header_bytes + bytes_behind
        while part < end:
            kind, _, part_header, padded = struct.unpack_from("<HHIQ", section, part)
            packed, = struct.unpack_from("<I", section, part + 16)
            gpu, = struct.unpack_from("<I", section, part + 28)
            size, = struct.unpack_from("<Q", section, part + 56)
            name, = struct.unpack_from("<I", section, part + 32)
            source = section[part + name:part + part_header].split(b"\0")[0].decode(errors="replace")
            content = section[part + part_header:part + part_header + (packed or padded)]
            parts.append(Part(kind, gpu, source, unpacked(content, size) if packed else content))
            part += part_header + padded
        at = end
    if not parts:
        raise Refusal(f"{module}: no kernels in it (no fat binary in .nv_fatbin)")
    return parts


def shown(symbols):
    """Names as a person would write them, without namespaces, parameters and the types of constants."""
    lines = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout.splitlines()
    names = []
    for line in lines:
        line = re.sub(r"\((?:\w+::)*\w+\)(?=\d)", "", line.replace("(anonymous namespace)::", ""))
        names.append(re.sub(r"(?:\w+::)+", "", line.split("(")[0].removeprefix("void ")))
    return names


def kernels_of(machine_code, where):
    elf = Elf(machine_code, where)
    info, _ = elf.section(".nv.info")
    names = elf.symbols()
    found, at = {}, 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # a block of `size` bytes
            if attribute in (REGISTERS, FRAME_BYTES):
                symbol, number = struct.unpack_from("<II", info, at)
                found.setdefault(names[symbol], {})[attribute] = number
            at += size
    # Functions that kernels call have frames, but no registers of their own.
    found = {name: values for name, values in found.items() if REGISTERS in values}
    kernels = []
    for (symbol, values), name in zip(found.items(), shown(found) if found else []):
        own, _ = elf.section(".nv.info." + symbol)
        threads, at = MOST_THREADS, 0
        while at + 4 <= len(own):
            form, attribute, size = struct.unpack_from("<BBH", own, at)
            at += 4
            if form == 4:
                if attribute == MAX_THREADS:
                    x, y, z = struct.unpack_from("<III", own, at)
                    threads = x * y * z
                at += size
        _, shared = elf.section(".nv.shared." + symbol)
        kernels.append(Kernel(name, values[REGISTERS], values.get(FRAME_BYTES, 0), shared, threads))
    return kernels


def check_ptx(part):
    text = part.content.decode(errors="replace")
    complaints = []
    target = re.search(r"^\.target\s+(\S+)", text, re.MULTILINE)
    if target is None or target.group(1).rstrip(",") != f"sm_{LEAST_GPU}":
        complaints.append(f"{part.source}: PTX for {target.group(1) if target else 'no target'}; expected sm_{LEAST_GPU}, "
                          "which all of these GPUs run")
    code = re.sub(r"//.*", "", text)
    for instruction in sorted({match.group(0) for match in LATER_INSTRUCTIONS.finditer(code)}):
        complaints.append(f"{part.source}: {instruction}: GPUs of compute capability 8.0 do not have it")
    return complaints


def machine_code_of(part, gpu, ptxas, folder):
    """What ptxas makes of a part's PTX, or what it says."""
    source = pathlib.Path(folder) / f"{id(part)}-{gpu}.ptx"
    source.write_bytes(part.content.rstrip(b"\0"))
    done = subprocess.run([ptxas, f"-arch=sm_{gpu}", source, "-o", source.with_suffix(".cubin")], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        return None, f"{part.source}: no machine code for sm_{gpu}: {done.stderr.strip()}"
    return Part(MACHINE_CODE, gpu, part.source, source.with_suffix(".cubin").read_bytes()), ""


def check_kernels(part, kernels):
    complaints = []
    for kernel in kernels:
        where = f"{part.source}: {kernel.name} on sm_{part.gpu}"
        allowed = LOCAL_MEMORY.get(kernel.name, 0)
        if kernel.local_bytes > allowed:
            complaints.append(f"{where}: {kernel.local_bytes} bytes of local memory a thread; expected at most {allowed}. Give it "
                              "fewer registers' worth of work, or say why not in LOCAL_MEMORY of this script")
        if kernel.registers * kernel.threads > REGISTERS_OF_BLOCK:
            complaints.append(f"{where}: {kernel.registers} registers for each of {kernel.threads} threads; a block has "
                              f"{REGISTERS_OF_BLOCK}. Does it lack __launch_bounds__?")
        if kernel.shared_bytes > STATIC_SHARED_BYTES + RESERVED_SHARED_BYTES:
            complaints.append(f"{where}: {kernel.shared_bytes} bytes of static shared memory; there are {STATIC_SHARED_BYTES}")
    return complaints


def known_gpus(ptxas):
    return set(map(int, re.findall(r"'sm_(\d+)'", subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True).stdout)))


def check(module, ptxas, gpus):
    """Complaints, and the names of all kernels; prints a line for each GPU."""
    parts = parts_of(module)
    ptx = [part for part in parts if part.kind == PTX]
    complaints = [complaint for part in ptx for complaint in check_ptx(part)]
    known = known_gpus(ptxas)
    names = set()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for gpu in gpus:
            held = {part.source: part for part in parts if part.kind == MACHINE_CODE and part.gpu == gpu}
            missing = [part for part in ptx if part.source not in held]
            if missing and gpu not in known:
                print(f"sm_{gpu}: unknown to {ptxas}; the driver will make its machine code of the PTX")
                continue
            made = list(pool.map(lambda part, gpu=gpu: machine_code_of(part, gpu, ptxas, folder), missing))
            complaints += [words for part, words in made if part is None]
            kernels = []
            for part in [*held.values(), *(part for part, _ in made if part is not None)]:
                of_part = kernels_of(part.content, part.source)
                complaints += check_kernels(part, of_part)
                kernels += of_part
            names |= {kernel.name for kernel in kernels}
            local = [kernel for kernel in kernels if kernel.local_bytes]
            print(f"sm_{gpu}: {len(kernels)} kernels, {'in the module' if not missing else 'of its PTX'}; at most "
                  f"{max((kernel.registers for kernel in kernels), default=0)} registers, "
                  f"{max((kernel.shared_bytes for kernel in kernels), default=0)} bytes of static shared memory; local memory in "
                  f"{len(local)}: {', '.join(sorted(f'{kernel.name} {kernel.local_bytes}' for kernel in local)) or 'none'}")
    return complaints, names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=pathlib.Path)
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--gpus", default="80,86,89,100,120", help="compute capabilities, without the dot")
    parser.add_argument("--whole", action="store_true",
                        help="the module has all kernels, so what LOCAL_MEMORY names must be among them")
    options = parser.parse_args()
    try:
        complaints, names = check(options.module, options.ptxas, [int(gpu) for gpu in options.gpus.split(",")])
    except (Refusal, OSError) as error:
        sys.exit(f"check_machine_code.py: {error}")
    if options.whole:
        complaints += [f"LOCAL_MEMORY of this script allows {name} local memory; there is no such kernel, remove it"
                       for name in LOCAL_MEMORY if name not in names]
    if complaints:
        sys.exit("\n".join(complaints))


if __name__ == "__main__":
    main()
