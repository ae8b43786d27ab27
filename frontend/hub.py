"""`flow.hub`: functions of a repository's `hubconf.py`, and files that are downloaded once.

Repositories of GitHub are read from the folder of the hub, where `load` puts them, or with `source="local"` from any
folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oneflow.frontend.core.pytree import flatten
from oneflow.frontend.core.tensor import Tensor
from oneflow.frontend.methods.methods import to
from oneflow.frontend.serialization import load as load_file

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_folder: dict[str, str] = {}


def get_dir() -> str:
    """The folder of the hub: the folder of `set_dir`, `$ONEFLOW_HOME/hub`, or `~/.cache/oneflow/hub`."""
    home = (
        os.environ.get("ONEFLOW_HOME") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "oneflow"
    )
    return _folder.get("hub") or str(Path(home) / "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of the hub."""
    _folder["hub"] = os.path.expanduser(d)


def list(github: str, force_reload: bool = False, source: str = "github") -> Any:
    """The names of the functions that a repository offers."""
    with _module(github, force_reload, source) as module:
        return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, source: str = "github") -> str | None:
    """The docstring of a function of a repository."""
    with _module(github, force_reload, source) as module:
        text: str | None = _entry(module, model).__doc__
    return text


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", force_reload: bool = False,
         **kwargs: Any) -> Any:  # fmt: skip
    """The result of a function of a repository for arguments.

    Args:
        repo_or_dir: "owner/name[:branch]" of a repository of GitHub, or with `source="local"` a folder.
        model: the name of the function.
        source: "github" or "local".
        force_reload: whether a repository that is in the folder of the hub is downloaded again.

    Raises:
        ValueError: the source is another, or the repository is no "owner/name".
        RuntimeError: the function does not exist, or a package that the repository needs is missing.
    """
    with _module(repo_or_dir, force_reload, source) as module:
        return _entry(module, model)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Downloads a file, which is there in whole or not at all; `progress` prints one line.

    Raises:
        RuntimeError: the SHA-256 of the file does not begin with `hash_prefix`.
    """
    if progress:
        sys.stderr.write(f"Downloading {url} to {dst}\n")
    target = Path(dst).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(url) as source, tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        try:
            shutil.copyfileobj(source, file)
            file.close()
            _check_hash(Path(file.name), hash_prefix, url)
            Path(file.name).replace(target)
        finally:
            Path(file.name).unlink(missing_ok=True)


def _check_hash(path: Path, prefix: str | None, url: str) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if prefix is not None else ""
    if prefix is not None and not digest.startswith(prefix):
        raise RuntimeError(f"expected a file whose SHA-256 begins with {prefix!r} at {url}, got {digest!r}")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
) -> Any:
    """The values of a file that `flow.save` wrote, downloaded to `model_dir` (the folder `checkpoints` of the hub) if
    it is not there. With `check_hash` its name has the first digits of its SHA-256: `name-<digits>.ext`.

    Raises:
        ValueError: the name has no such digits.
        RuntimeError: the SHA-256 of the file is another.
    """
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    path = Path(model_dir or Path(get_dir()) / "checkpoints") / name
    digits = _digits(name) if check_hash else None
    if path.exists():
        _check_hash(path, digits, str(path))
    else:
        download_url_to_file(url, str(path), digits, progress)
    values = load_file(path)
    if map_location is None:
        return values
    leaves, tree = flatten(values)
    return tree.unflatten([to(x, map_location) if isinstance(x, Tensor) else x for x in leaves])


def _digits(name: str) -> str:
    """The digits of the SHA-256 in the name of a file."""
    match = re.search(r"-([a-f0-9]+)\.", name)
    if match is None:
        raise ValueError(f'expected a name such as "name-0123abcd.ext", with digits of the SHA-256, got {name!r}')
    return match[1]


@contextmanager
def _module(repo_or_dir: str, force_reload: bool, source: str) -> Iterator[Any]:
    """The module `hubconf.py` of a repository, within which the repository's own modules can be imported."""
    if source not in ("github", "local"):
        raise ValueError(f'expected source to be "github" or "local", got {source!r}')
    folder = Path(repo_or_dir).expanduser() if source == "local" else _repository(repo_or_dir, force_reload)
    spec = importlib.util.spec_from_file_location("hubconf", folder / "hubconf.py")
    if spec is None or spec.loader is None or not (folder / "hubconf.py").exists():
        raise FileNotFoundError(f"expected a file hubconf.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
        missing = [d for d in getattr(module, "dependencies", ()) if importlib.util.find_spec(d) is None]
        if missing:
            raise RuntimeError(f"expected the packages {', '.join(missing)}, which {folder} needs, to be installed")
        yield module
    finally:
        sys.path.remove(str(folder))


def _entry(module: Any, name: str) -> Any:
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"expected a function {name!r} in {module.__file__}")
    return entry


def _repository(repo_or_dir: str, force_reload: bool) -> Path:
    """The folder of a repository of GitHub, downloaded if the folder does not exist."""
    name, _, branch = repo_or_dir.partition(":")
    if name.count("/") != 1:
        raise ValueError(f'expected a repository as "owner/name" or "owner/name:branch", got {repo_or_dir!r}')
    branch = branch or "main"
    parts = (urllib.parse.quote(part, safe="") for part in (*name.split("/"), branch))
    folder = Path(get_dir()) / "+".join(parts)  # quoted parts have no "+", so that no two repositories share a folder
    if force_reload:
        shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        with urllib.request.urlopen(f"https://github.com/{name}/zipball/{branch}") as answer:
            archive = zipfile.ZipFile(io.BytesIO(answer.read()))
        with tempfile.TemporaryDirectory() as unpacked:
            archive.extractall(unpacked)
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(str(next(Path(unpacked).iterdir())), folder)
    return folder
