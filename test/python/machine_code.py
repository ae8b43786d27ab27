"""The machine code of a compiled program, as objdump of binutils reads it."""

import re
import shutil
import subprocess

#: An instruction of objdump: address, prefix in braces, name, operands.
LINE = re.compile(r"^[ \t]*([0-9a-f]+):[ \t]+(?:\{\w+\} )?(\S+)[ \t]*(.*)$", re.MULTILINE)


def has_disassembler():
    """Whether objdump is installed."""
    return shutil.which("objdump") is not None


def innermost_loops(path):
    """The innermost loops of a shared object: lists of instructions (name, operands)."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    lines = [(int(at, 16), name, operands) for at, name, operands in LINE.findall(text.stdout)]
    numbers = {at: index for index, (at, *_) in enumerate(lines)}
    found = []
    for index, (_, name, operands) in enumerate(lines):
        target = re.match(r"([0-9a-f]+)\b", operands)
        first = numbers.get(int(target[1], 16), index) if name.startswith("j") and target else index
        if first < index:
            found.append((first, index))
    innermost = [(a, b) for a, b in found if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in found)]
    return [[line[1:] for line in lines[a : b + 1]] for a, b in innermost]


def is_spill(name, operands):
    """Whether an instruction stores a vector register on the stack."""
    return "mov" in name and bool(re.search(r"^%[xyz]mm\d+,.*\(%rsp", operands))
