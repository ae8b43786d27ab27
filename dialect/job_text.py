"""The text of OneFlow's own programs, in MLIR's spelling.

MLIR's parser knows the syntax of no dialect that is declared at run time. `oneflow.job` and `oneflow.return` are
therefore read as `func.func` and `func.return`, which have the same syntax, and `#sbp.parallel<..>` as a string. All
positions in the text stay as they are, so that messages and the names of arguments are as in the file.
"""

from __future__ import annotations

import re

from oneflow.dialect.text_validation import STRING, InvalidText, invalid_text_at

#: How words of OneFlow's compiler begin, and what they are.
COMPILED = {
    "okl.": "the dialect okl holds calls of OneFlow's kernels",
    "okm.": "the dialect okm holds the memory of OneFlow's kernels",
    "transform.oneflow.": "these operations run passes of OneFlow",
    "oneflow.kernel_launch": "this operator holds kernels that OneFlow has compiled",
    "oneflow.mlir_jit": "this operator holds code that OneFlow has compiled",
}

_SBP = r"#sbp\.(?:S<\s*\d+\s*>|B|P|Any)"
_LIST = rf"\[\s*(?:{_SBP}(?:\s*,\s*{_SBP})*\s*)?\]"
_SIDE = rf"\[\s*(?:(?:{_SBP}|{_LIST})(?:\s*,\s*(?:{_SBP}|{_LIST}))*\s*)?\]"
_SKIPPED = rf"{STRING}|//[^\n]*"
#: A word of MLIR, as opposed to a part of a name.
_ALONE = r"(?<![\w.$%@#^-])"
_TOKEN = re.compile(
    rf'(?P<quoted>"oneflow\.(?:job|return)"(?=\s*\())|{_SKIPPED}|(?P<word>{_ALONE}oneflow\.(?:job|return)\b)'
    rf"|#sbp\.parallel(?:<\s*(?P<parallel>{_SIDE}\s*->\s*{_SIDE})\s*>|(?P<malformed>))"
)
_BEGIN = "|".join(map(re.escape, COMPILED))
_COMPILED = re.compile(rf'"(?P<quoted>{_BEGIN})[\w.]*"(?=\s*\()|{_SKIPPED}|{_ALONE}!?(?P<word>{_BEGIN})[\w.]*')
_OWN = "conf job return system input output variable variable_ir user add_n2 normalization_infer".replace(" ", "|")
_MARK = re.compile(rf"\boneflow\.(?:{_OWN})\b|#sbp\.parallel\b|\bdevice_tag\s*=|{_BEGIN}")


def is_job_text(text: str) -> bool:
    """Whether a program is, or may be, OneFlow's own: every operation there says where it runs."""
    return _MARK.search(text) is not None


def refused_job_text(text: str) -> InvalidText | None:
    """Why OneFlow's own program cannot be read: another compiler's words, or a malformed `#sbp.parallel`."""
    for match in _COMPILED.finditer(text):
        begin = match["quoted"] or match["word"]
        if begin:
            advice = "expected operators of the dialect oneflow: give the program that OneFlow compiled"
            return invalid_text_at(text, f"{match[0]}: {COMPILED[begin]}; {advice}", match.start())
    for match in _TOKEN.finditer(text):
        if match["malformed"] is not None:
            form = (
                "#sbp.parallel<[..] -> [..]>, in each list #sbp.S<axis>, #sbp.B, #sbp.P, #sbp.Any or lists of these"
            )
            got = text[match.start() : match.start() + 60].partition("\n")[0]
            return invalid_text_at(text, f"expected {form}, got {got}", match.start())
    return None


def mlir_text(text: str) -> str:
    """The program with MLIR's words for OneFlow's, of the same lengths."""

    def spelled(match: re.Match[str]) -> str:
        if match["quoted"] or match["word"]:
            new = match[0].replace("oneflow.", "func.").replace("job", "func")
        elif match["parallel"]:
            new = f'"{match["parallel"]}"'
            blanks = len(match[0]) - len(new)
            return " " * blanks + new
        else:
            new = match[0]
        return new.ljust(len(match[0]))

    return _TOKEN.sub(spelled, text)
