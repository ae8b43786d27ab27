"""The documents are true: README runs, the walk of CONTRIBUTING works on a copy, generated pages are fresh."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import oneflow as flow
from oneflow.passes.registry import PASSES, PIPELINES
from oneflow.tools.ranks import launcher

ROOT = Path(__file__).parents[2]
TOOLS = ("oneflow-opt", "oneflow-run", "oneflow-translate")
SOURCES = ("dialect", "passes", "lowering", "runtime", "frontend", "tools", "testing")
FOLDERS = (*SOURCES, "src", "test", "docs")


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def run(command: list[str], cwd: Path, source: Path) -> str:
    folders = [str(source / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_readme_programs_run(tmp_path):
    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks(ROOT / "README.md", "python")))
    out = run([sys.executable, str(program)], tmp_path, ROOT)
    assert out.startswith("(4, 2) float32\n")
    assert '"oneflow.gelu"' in out and "\n@triton.jit\n" in out
    printed = re.findall(r"^print\(.*\)  # (.+)$", program.read_text(), re.MULTILINE)
    assert len(printed) == 3 and all(f"{text}\n" in out for text in printed)


def test_programs_of_user_operators_run(tmp_path):
    document = ROOT / "docs/user-operators.md"
    (tmp_path / "cube.cpp").write_text("\n".join(blocks(document, "cpp")))
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks(document, "python")))
    out = run([sys.executable, str(program)], tmp_path, ROOT)
    *cubes, loss = [float(text) for text in re.findall(r"-?\d+\.\d*", out)[-5:]]
    np.testing.assert_allclose(cubes, [0.125, 8, 27, 0])
    assert loss < 1e-3


def test_programs_of_pytorch_run(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    program = tmp_path / "importers.py"
    pytorch = (ROOT / "docs/importers.md").read_text().partition("## PyTorch\n")[2].partition("\n## ")[0]
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", pytorch, re.DOTALL)))
    assert 'oneflow.name = "0.weight"' in run([sys.executable, str(program)], tmp_path, ROOT)


def test_programs_of_training_run(tmp_path):
    program = tmp_path / "training.py"
    program.write_text("\n".join(blocks(ROOT / "docs/training.md", "python")))
    out = run([sys.executable, str(program)], tmp_path, ROOT)
    assert out.startswith("tensor([2., 4., 6.]") and "(3, 2)" in out
    assert re.search(r"gradient of oneflow\.exp needs .* zero_ has updated", out) and "{'step': 150}" in out
    assert float(re.findall(r"loss ([\d.]+)", out)[0]) < 0.05


def test_programs_of_dynamic_sizes_run(tmp_path):
    program = tmp_path / "sizes.py"
    program.write_text("\n".join(blocks(ROOT / "docs/sizes.md", "python")))
    run([sys.executable, str(program)], tmp_path, ROOT)


def test_programs_of_control_flow_run(tmp_path):
    program = tmp_path / "control_flow.py"
    program.write_text("\n".join(blocks(ROOT / "docs/control-flow.md", "python")))
    run([sys.executable, str(program)], tmp_path, ROOT)


def test_programs_of_onnx_models_run(tmp_path):
    program = tmp_path / "models.py"
    text = (ROOT / "docs/importers.md").read_text().partition("## ONNX\n")[2].partition("\n## ")[0]
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    out = run([sys.executable, str(program)], tmp_path, ROOT)
    first, second = (float(text) for text in out.splitlines()[-2].split())
    assert "tensor<?x4xf32>" in out and out.startswith("[[2. 2.]") and second < first
    assert "'Gemm'" in out or "'MatMul'" in out


def test_programs_and_commands_of_oneflow_files_run(tmp_path):
    text = (ROOT / "docs/importers.md").read_text().partition("## OneFlow\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    out = run([sys.executable, "-c", program], tmp_path, ROOT)
    assert "True oneflow.Size([1, 2])\n" in out and "'net.0.weight'" in out
    tools = "".join(f'{t}() {{ {sys.executable} -m oneflow.tools.{t.replace("-", "_")} "$@"; }}\n' for t in TOOLS)
    commands = re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL)
    script = "set -e\n" + tools + re.sub(r"^\$ ", "", "".join(commands), flags=re.MULTILINE)
    out = run(["bash", "-c", script.replace("python -c", f"{sys.executable} -c")], tmp_path, ROOT)
    assert "oneflow.mesh = array<i64: 2>" in out and "out0: float32[3, 2]" in out
    assert 'oneflow.name = "net.2.bias"' in (tmp_path / "classifier.mlir").read_text()


@pytest.mark.parametrize("ranks", [1, 2])
def test_programs_of_many_ranks_run(ranks, tmp_path):
    program = tmp_path / "distributed.py"
    program.write_text("\n".join(blocks(ROOT / "docs/distributed.md", "python")))
    job = [] if ranks == 1 else [*launcher(), "-n", str(ranks)]
    out = run([*job, sys.executable, str(program)], tmp_path, ROOT)
    assert out.count("[20. 20. 20.]") == ranks and out.count("oneflow.ccl_") >= ranks
    assert out.count("True") == 3 * ranks and "False" not in out  # ranks may write into each other's lines
    assert out.count("(oneflow.sbp.split(dim=1),)") == ranks


def test_environment_variables_are_documented():
    """The variables are those that Python code looks up by name."""
    folders = ("dialect", "passes", "lowering", "runtime", "frontend", "testing", "tools")
    texts = [p.read_text() for f in folders for p in (ROOT / f).rglob("*.py")]
    used = {name for text in texts for name in re.findall(r'"(ONEFLOW_[A-Z_]+)"', text)} - {"ONEFLOW_RUN_RANK"}
    told = set(re.findall(r"^\| `(ONEFLOW_[A-Z_]+)`", (ROOT / "docs/environment.md").read_text(), re.MULTILINE))
    assert used - told == set() and told - used <= {"ONEFLOW_NUM_THREADS"}


def console_commands() -> list[list[str]]:
    text = "\n".join(blocks(ROOT / "README.md", "console")).replace("\\\n", "")
    return [shlex.split(line.removeprefix("$ ")) for line in text.splitlines() if line.startswith("$ ")]


def test_readme_commands_run(tmp_path):
    """Commands run in order, as some read files of others; without a GPU, the GPU command reports the lack."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    outputs = {}
    for name, *rest in console_commands():
        command = {"python": [sys.executable], "ls": ["ls"]}.get(
            name, [sys.executable, "-m", f"oneflow.tools.{name.replace('-', '_')}"]
        )
        if "cuda" in rest and not flow.cuda.is_available():
            with pytest.raises(AssertionError, match=r"CUDA|no device"):
                run([*command, *rest], tmp_path, ROOT)
        else:
            outputs[" ".join([name, *rest])] = run([*command, *rest], tmp_path, ROOT)
    printed = [out for line, out in outputs.items() if not line.startswith("python")]
    assert all(printed) and len(printed) == len(outputs) - 1
    kernels = outputs["ls kernels"].split()
    assert kernels[0] == "predict.plan.py"
    assert kernels[1:] == [f"predict_kernel_{i}.{ending}" for i in range(4) for ending in ("cubin", "ptx", "py")]


#: An editable installation's finder comes before PYTHONPATH; the import has to find the copy.
WITHOUT_EDITABLE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
"""


def test_contributing_walk(tmp_path):
    """Adding an operator touches one source file, one lit file and one sample file."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src/sitecustomize.py").write_text(WITHOUT_EDITABLE)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    steps = re.findall(r"(Append|Write) to `([^`]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL)
    assert [name.split("/")[0] for _, name, _ in steps] == ["dialect", "test", "test"]
    for verb, name, body in steps:
        path = tmp_path / name
        path.write_text((path.read_text() + "\n" if verb == "Append" else "") + body)
    for line in blocks(ROOT / "CONTRIBUTING.md", "sh")[1].splitlines():
        out = run([sys.executable, *line.split()[1:]], tmp_path, tmp_path)
    assert re.search(r"\d+ passed", out)
    assert "softcap" in (tmp_path / "docs/ops.md").read_text()


#: The pages of folders, and the pages that say where a task or a term is found.
FOLDER_PAGES = sorted(
    page.relative_to(ROOT)
    for folder in ("dialect", "passes", "lowering", "runtime", "frontend", "testing", "tools", "test")
    for page in (ROOT / folder).rglob("README.md")
)
INDEX_PAGES = [Path("docs/glossary.md"), Path("docs/architecture.md"), Path("CONTRIBUTING.md")]


def paths_in(page: Path) -> set[str]:
    """The files and folders that a page names between backticks or links to, except in programs."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    text = re.sub(r"Write to `[^`]+`", "", text)
    named = re.findall(r"`([\w./-]+(?:/|\.(?:py|md|cpp|h|mlir|toml|yaml|cu)))`", text)
    return {*named, *links_in(text)}


def links_in(text: str) -> set[str]:
    """The files that a text links to."""
    return {link for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) if "://" not in link}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_links_of_documents_exist(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    missing = sorted(link for link in links_in(text) if not (page.parent / link).exists())
    assert not missing, f"{page.name} links to files that do not exist: {missing}"


def headings(page: Path) -> set[str]:
    """The names by which links refer to the headings of a page."""
    lines = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).splitlines()
    return {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines if line[:1] == "#"}


@pytest.mark.parametrize("page", [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"], ids=lambda page: page.name)
def test_headings_that_links_name_exist(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s:]*)#([^)]*)\)", text)
    missing = [f"{file}#{name}" for file, name in links if name not in headings(page.parent / file if file else page)]
    assert not missing, f"{page.name} links to headings that do not exist: {missing}"


@pytest.mark.parametrize("page", INDEX_PAGES, ids=str)
def test_paths_of_index_pages_exist(page):
    """An index page names every path from the root of the repository; links are relative to the page."""
    missing = [p for p in paths_in(page) if not (ROOT / p).exists() and not (ROOT / page).parent.joinpath(p).exists()]
    assert not missing, f"{page} names paths that do not exist: {sorted(missing)}"


@pytest.mark.parametrize("page", FOLDER_PAGES, ids=str)
def test_paths_of_folder_pages_exist(page):
    """The page of a folder names files by the path from the root, or by the end of a path inside the folder."""
    folder = (ROOT / page).parent
    inside = ["/" + path.relative_to(folder).as_posix() for path in folder.rglob("*")]

    def exists(path: str) -> bool:
        end = "/" + path.rstrip("/")
        return (ROOT / path).exists() or (folder / path).exists() or any(name.endswith(end) for name in inside)

    missing = sorted(path for path in paths_in(page) if not exists(path))
    assert not missing, f"{page} names paths that do not exist: {missing}"


def tasks() -> list[list[str]]:
    """The rows of CONTRIBUTING's table of tasks: the task, words to search for, files."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where to find it")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .*\|$", table, re.MULTILINE)[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def spelled(word: str) -> str:
    """A word without the differences between file names and prose: case, hyphens, a plural."""
    return re.sub(r"[\s_-]+", " ", word.lower()).rstrip("s")


def search(word: str) -> set[str]:
    """The best hits of a search for a word: files of that name, else files and folders with the word in their names,
    else modules with the word in their first line.
    """
    files = [str(path.relative_to(ROOT)) for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    wanted = spelled(word)
    titles = {path: spelled((ROOT / path).read_text().partition("\n")[0]) for path in files}
    ranks = [
        [path for path in files if spelled(Path(path).stem) == wanted],
        [path for path in files if wanted in spelled(path.removesuffix(".py"))],
        [path for path in files if wanted in titles[path]],
    ]
    return set(next(filter(None, ranks), []))


@pytest.mark.parametrize("task, words, where", tasks())
def test_a_search_finds_where_a_task_is(task, words, where):
    """The files of a row exist, and a search for each word finds the first file among at most three files."""
    files = re.findall(r"`([\w/]+\.py)`", where)
    assert files and all((ROOT / path).is_file() for path in files)
    for word in words.split(", "):
        hits = search(word)
        assert files[0] in hits and len(hits) <= 3, f"{task}: a search for {word} finds {sorted(hits)}"


#: Words of engineers who know CUTLASS, IREE, XLA, TVM, functorch or PyTorch.
FIELD_TERMS = """autotuning; buffer assignment; cache key; caching allocator; checkpointing; collective bucketing;
command buffer; cross-mesh resharding; CUDA graph; deadlock; dequantization; dispatch region; flash attention;
im2col; implicit GEMM; input-output aliasing; int4 weights; integer program; joint graph; layout assignment; loop
nest; loss scaling; mainloop; micro-batch; multi-output fusion; object cache; occupancy; operator fusion; out of
memory; overlap; packing; partitioner; pipeline parallelism; register blocking; rematerialization; reproducer;
residuals; schedule; shape inference; shard; software pipelining; software prefetch; split-K; SPMD partitioning;
stream-K; swizzle; tail masking; tensor parallelism; tile rasterization; tiling; vectorization; warp specialization;
Winograd convolution; ZeRO"""


def glossary() -> dict[str, list[str]]:
    """The files of each term of the glossary."""
    cells = [
        re.split(r"\s\|\s", row.strip("| "))
        for row in re.findall(r"^\| .*\|$", _text("docs/glossary.md"), re.MULTILINE)
    ]
    files: dict[str, list[str]] = {}
    for terms, *_, where in cells:
        for term in re.sub(r"\(.*?\)", "", terms).split(","):
            files.setdefault(spelled(term.strip()), []).extend(re.findall(r"`([^`]+\.py)`", where))
    return files


@pytest.mark.parametrize("term", FIELD_TERMS.replace("\n", " ").split("; "))
def test_a_word_of_the_field_leads_to_its_module(term):
    """The glossary has the term, and the text of one of the files that it names has the term."""
    files = glossary().get(spelled(term), [])
    words = spelled(term).replace("pipelining", "pipelin")
    assert any(words in spelled(_text(path)) for path in files), f"{term}: no file out of {files} mentions the term"


#: Words that this project uses for several things, as the field does.
AMBIGUOUS = """block; body; cast; checkpoint; graph; group; kernel; launch; layout; mask; part; place; rank; reader;
record; region; root; segment; stage; state; step; target; weight""".replace("\n", " ").split("; ")


@pytest.mark.parametrize("word", AMBIGUOUS)
def test_a_word_of_several_meanings_has_a_row_for_each(word):
    """Each row says the context of a meaning in parentheses, and one of the files of the row has the word."""
    rows = re.findall(r"^\| (\w+) (\(.*?\)) \| .* \| (.*) \|$", _text("docs/glossary.md"), re.MULTILINE)
    meanings = {context: re.findall(r"`([^`]+)`", files) for term, context, files in rows if spelled(term) == word}
    assert len(meanings) >= 2, f"{word}: rows for {list(meanings)}"
    silent = [context for context, files in meanings.items() if not any(word in _text(f).lower() for f in files)]
    assert not silent, f"{word} {silent}: no file of the row has the word"


def test_every_folder_is_reached_from_an_index_page():
    """The glossary or the page of the architecture names the folder of every module, or a file in the folder."""
    named = {path for page in INDEX_PAGES[:2] for path in paths_in(page)}
    reached = {
        path.rstrip("/").removeprefix("../") if "." not in Path(path).name else str(Path(path).parent)
        for path in named
    }
    folders = {str(path.parent.relative_to(ROOT)) for folder in SOURCES for path in (ROOT / folder).rglob("*.py")}
    assert not folders - reached, f"folders that no index page names: {sorted(folders - reached)}"


def _text(path: str) -> str:
    return (ROOT / path).read_text()


@pytest.mark.parametrize("page", [*INDEX_PAGES, *FOLDER_PAGES], ids=str)
def test_passes_and_commands_in_pages_exist(page):
    named = set(re.findall(r"`(oneflow-[a-z-]+)", (ROOT / page).read_text()))
    commands = {"oneflow-opt", "oneflow-run", "oneflow-translate", "oneflow-mlir"}
    assert named <= {*PASSES, *PIPELINES, *commands}


@pytest.mark.parametrize("page", [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_lines_of_documents_are_short(page):
    long = [number for number, line in enumerate(page.read_text().splitlines(), 1) if len(line) > 200]
    assert not long, f"{page.name}: lines {long} have more than 200 characters"


def test_the_version_is_the_newest_release_of_the_changelog():
    headings = re.findall(r"^## (\S+)(?: \(\d{4}-\d{2}-\d{2}\))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" and headings[1] == flow.__version__
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == flow.__version__


def test_generated_documents_are_fresh():
    run([sys.executable, "docs/generate.py", "--check"], ROOT, ROOT)
