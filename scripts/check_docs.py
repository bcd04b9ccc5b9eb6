#!/usr/bin/env python3
"""check_docs.py [--write]: what the documents say of the tree, against the tree.

Names in code spans exist: files and folders, classes and their members, functions, options (in docs/history
they may be gone). Links lead to files and headings that are there. The table of USES in docs/folders.md is
that of the CMakeLists.txt files; --write brings it up to date. The number of operations in docs/structure.md
is that of src/ops/operations.h, and its layers are those of the USES: none uses a higher one. Standard library only."""
import argparse
import os
import re
import subprocess
import sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))

# Names of others, of examples, and of what only a build makes.
FOREIGN = {
    'build/release/src/app/baleen', 'build/release/bench/tokenizer/tokenizer_bench', 'share/baleen',
    'sm90/few_tokens', 'evict_first', 'hc_pre_inv_rms', 'hc_pre_sinkhorn', 'scatter_nd_update_mla',
    'quant_lightning_indexer', 'sparse_attn_sharedkv', 'moe_gating_top_k', 'v4_clamped_swiglu', 'train_from_iterator', 'dry_run',
    'x_cost', 'x_backward_cost', 'ops/*/..._cost.cc', 'encoding/encoding_dsv4.py', 'encoding/encoding.py',
}
# Options of other programs.
FOREIGN_OPTIONS = set('--bind-to --cap-drop --cpus-per-task --gpus-per-node --gtest --map-by --mca --mpi --nodes '
                      '--now --ntasks-per-node --read-only --security-opt --test-dir'.split())
STRUCTURE = 'docs/structure.md'
FOLDERS = 'docs/folders.md'
TABLE_BEGIN = '<!-- made by scripts/check_docs.py --write -->'
TABLE_END = '<!-- end -->'
NUMBERS = ('zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen '
           'sixteen seventeen eighteen nineteen').split()
TENS = {20: 'twenty', 30: 'thirty', 40: 'forty'}


OPTION = re.compile(r'(?<![\w-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?![\w])')


def in_words(number):
    if number < 20: return NUMBERS[number]
    ten, one = number // 10 * 10, number % 10
    return TENS[ten] + ('-' + NUMBERS[one] if one else '')


class Tree:
    def __init__(self):
        self.files = subprocess.check_output(['git', 'ls-files', '--cached', '--others', '--exclude-standard'],
                                             text=True).split()
        self.files = [f for f in self.files if os.path.exists(f)]
        self.paths = set()
        for file in self.files:
            self.paths |= {file, os.path.splitext(file)[0]}
            folder = os.path.dirname(file)
            while folder:
                self.paths.add(folder)
                folder = os.path.dirname(folder)
        self.stems = {os.path.basename(path) for path in self.paths}
        self.words = set()
        self.options = set(FOREIGN_OPTIONS)
        for file in self.files:
            if not file.endswith(('.md', '.json', '.jsonl', '.csv')):
                with open(file, errors='ignore') as text:
                    content = text.read()
                    self.words.update(re.findall(r'[A-Za-z_]\w*', content))
                    self.options.update(OPTION.findall(content))

    def has_path(self, name):
        name = name.rstrip('/')
        if '*' in name:
            pattern = re.compile('(.*/)?' + re.escape(name).replace(r'\*', '[^/]*'))
            return any(pattern.fullmatch(path) for path in self.paths)
        return name in self.paths or any(path.endswith('/' + name) for path in self.paths)

    def has(self, name):
        """Whether a code span names something that is here, if it names something of the kinds that are checked."""
        if any(option not in self.options for option in OPTION.findall(name)): return False
        if re.fullmatch(r'[A-Z]\w*(::\w+)*(\(\))?', name) and re.search(r'[a-z][A-Z]|[a-z]::', name):
            return all(word in self.words for word in re.findall(r'\w+', name))
        if re.fullmatch(r'[a-z0-9_]+(/[a-z0-9_.*]+)+/?', name): return self.has_path(name)
        if re.fullmatch(r'[a-z0-9_]+\.(h|cc|cu|cuh|py|sh|mjs|ts)', name): return name in self.stems
        if re.fullmatch(r'[a-z0-9]+(_[a-z0-9]+)+(\(\))?', name):
            word = name.rstrip('()')
            return word in self.words or word in self.stems
        return True


def spans(text):
    """(line, code span) of a page, without its blocks of code."""
    fenced = False
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith('```'): fenced = not fenced
        if fenced or line.startswith('    '): continue
        for span in re.findall(r'`([^`]+)`', line): yield number, span


def check_names(tree):
    wrong = 0
    for page in tree.files:
        if not page.endswith('.md') or page == 'CHANGELOG.md' or page.startswith(('models/', 'docs/history/')): continue
        with open(page) as text:
            for number, name in spans(text.read()):
                if name in FOREIGN or tree.has(name): continue
                print(f'{page}:{number}: `{name}` is not in the tree', file=sys.stderr)
                wrong += 1
    return wrong


def anchors(text):
    """The names by which a page's headings are linked, as GitHub makes them."""
    found = set()
    for line in text.split('\n'):
        heading = re.match(r'#+ (.*)', line)
        if not heading: continue
        words = re.sub(r'\]\([^)]*\)|[`*]', '', heading[1]).lower()
        found.add(re.sub(r'[^\w\- ]', '', words).strip().replace(' ', '-'))
    return found


def check_links(tree):
    """Relative links of pages: the file is in the tree, and has the heading that is named."""
    wrong = 0
    for page in tree.files:
        if not page.endswith('.md'): continue
        with open(page) as text: lines = text.read().split('\n')
        for number, line in enumerate(lines, 1):
            if line.startswith('    '): continue
            for target in re.findall(r'\]\(([^)\s]+)\)', re.sub(r'`[^`]*`', '', line)):
                if re.match(r'[a-z]+:', target): continue
                name, _, anchor = target.partition('#')
                path = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
                if path not in tree.paths:
                    problem = 'is not in the tree'
                elif anchor and path.endswith('.md') and anchor not in anchors(open(path).read()):
                    problem = f'has no heading #{anchor}'
                else:
                    continue
                print(f'{page}:{number}: {path} {problem}', file=sys.stderr)
                wrong += 1
    return wrong


def uses():
    """folder -> folders that it names in USES."""
    found = {}
    for root, _, names in sorted(os.walk('src')):
        if 'CMakeLists.txt' not in names: continue
        with open(os.path.join(root, 'CMakeLists.txt')) as file: text = re.sub(r'#.*', '', file.read())
        for call in re.findall(r'baleen_(?:folder|kernels)\(([^)]*)\)', text):
            name = re.search(r'NAME\s+(\S+)', call).group(1)
            used = re.search(r'USES\s+([^A-Z]*)', call)
            found[name] = [u for u in (used.group(1).split() if used else []) if u != 'base']
    return found


def group(name):
    """The row of a folder: operations share one, and kernels of an architecture are part of their operation."""
    return 'ops/...' if name.startswith('ops/') and name != 'ops/operation' else name


def table():
    rows = {}
    for name, used in uses().items():
        row = rows.setdefault(group(name), set())
        row.update(group(u) for u in used if group(u) != group(name))
    lines = ['| folder | uses, `base` aside |', '|---|---|']
    for name in sorted(rows):
        lines.append(f'| {name} | {", ".join(sorted(rows[name])) or "nothing"} |')
    return '\n'.join(lines)


def check_operations():
    with open(STRUCTURE) as file: text = file.read()
    with open('src/ops/operations.h') as file:
        listed = re.search(r'using Operations = TypeList<([^;]*)>;', file.read())
    if listed:
        count = in_words(len(re.findall(r'ops::\w+', listed.group(1))))
        if f'{count} operations' not in text:
            print(f'{STRUCTURE}: src/ops/operations.h lists {count} operations', file=sys.stderr)
            return 1
    return 0


def layers():
    """folder -> layer, of the table in docs/structure.md; "x/..." stands for all folders below x."""
    found = {}
    with open(STRUCTURE) as file: rows = re.findall(r'^\| (\d) \| \[([^\]]+)\]', file.read(), re.M)
    for layer, names in rows:
        for name in names.split(', '): found[name] = int(layer)
    return found


def layer_of(folder, found):
    while folder not in found and folder + '/...' not in found:
        if '/' not in folder: return None
        folder = os.path.dirname(folder)
    return found.get(folder, found.get(folder + '/...'))


def check_layers():
    """Every folder has a layer, and uses none of a higher one."""
    wrong, found = 0, layers()
    for folder, used in uses().items():
        layer = layer_of(folder, found)
        if layer is None:
            print(f'{STRUCTURE}: the table of layers has no {folder}', file=sys.stderr)
            wrong += 1
            continue
        for other in used:
            if layer < (layer_of(other, found) or 0):
                print(f'{STRUCTURE}: {folder} (layer {layer}) uses {other} of a higher one', file=sys.stderr)
                wrong += 1
    return wrong


def check_folders(write):
    with open(FOLDERS) as file: text = file.read()
    begin, end = text.find(TABLE_BEGIN), text.find(TABLE_END)
    if begin < 0 or end < begin:
        print(f'{FOLDERS}: the table of USES stands between "{TABLE_BEGIN}" and "{TABLE_END}"', file=sys.stderr)
        return 1
    made = text[:begin] + TABLE_BEGIN + '\n' + table() + '\n' + text[end:]
    if made == text: return 0
    if write:
        with open(FOLDERS, 'w') as file: file.write(made)
        return 0
    print(f'{FOLDERS}: the table of USES differs from the CMakeLists.txt files; scripts/check_docs.py --write',
          file=sys.stderr)
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--write', action='store_true', help='bring the table of USES up to date')
    write = parser.parse_args().write
    tree = Tree()
    wrong = check_operations() + check_layers() + check_folders(write) + check_names(tree) + check_links(tree)
    sys.exit(1 if wrong else 0)


if __name__ == '__main__': main()
