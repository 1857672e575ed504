"""Measure the tests: change random lines of `src/` one at a time, and count the changes that the tests find.

    python -m campaign.mutants --source . --seed 1 --n 80 --output mutants.json

Lines are drawn uniformly from those of functions that can be changed, then a change of that line. Each mutant runs
against the tests of its folder, the file of the same name first, and then the contract tests, until the first failure
and for at most a minute of CPU time, children included. A failure counts only if the same test passes on the source as
it is. The tree is copied first and never changed in place. Stopped, it resumes from the file of results.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

# What only a paper needs is not part of the product, wherever the tree has it.
EXCLUDED = {"papers", "filtering", "reproduce", "study_tables"}
IGNORED = shutil.ignore_patterns(".git", ".venv*", ".numba-cache", "__pycache__", ".*_cache", "site", "build", "dist")
OUTCOMES = ("found", "hangs", "out of time", "survived")
WALL_PER_CPU = 15.0  # a mutant that waits, as for a lock, uses no CPU time

# Runs inside pytest: keeps the order of the files given, leaves out tests that fail anyway, and logs what is running.
PLUGIN = """
import json, os
import pytest

ORDER = {path: at for at, path in enumerate(json.loads(os.environ["MUTANT_FILES"]))}
BROKEN = set(json.loads(os.environ["MUTANT_BROKEN"]))

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    items[:] = sorted((item for item in items if item.nodeid not in BROKEN), key=lambda item: ORDER[str(item.path)])

def log(what, nodeid):
    with open(os.environ["MUTANT_LOG"], "a") as file:
        file.write(json.dumps([what, nodeid, sum(os.times()[:4])]) + "\\n")

def pytest_runtest_logstart(nodeid, location):
    log("start", nodeid)

def pytest_runtest_logreport(report):
    if report.failed:
        log("failed", report.nodeid)
"""


@dataclass(frozen=True)
class Mutation:
    """Replacement of a part of a file."""

    file: str  # relative to the root of the tree
    line: int
    start: int  # in bytes
    end: int
    text: str
    before: str


# Finding mutations

_SWAPPED: dict[type, list[type]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.Mod: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}


def _with(node: Any, **fields: Any) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _plus(node: Any, amount: int) -> ast.BinOp:
    return ast.BinOp(node, ast.Add() if amount > 0 else ast.Sub(), ast.Constant(abs(amount)))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def changes(node: Any) -> Iterator[Any]:
    """Yield the nodes that a node may be replaced by."""
    match node:
        case ast.Compare(ops=[op]):
            yield from (_with(node, ops=[other()]) for other in _SWAPPED[type(op)])
        case ast.BinOp(left=left, op=op, right=right) if not (_is_text(left) or _is_text(right)):
            yield from (_with(node, op=other()) for other in _SWAPPED.get(type(op), []))
        case ast.AugAssign(op=op):
            yield from (_with(node, op=other()) for other in _SWAPPED.get(type(op), []))
            yield ast.Pass()
        case ast.BoolOp(op=op):
            yield _with(node, op=_SWAPPED[type(op)][0]())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1)
        case ast.If() | ast.While() | ast.IfExp():
            yield node.test, ast.UnaryOp(ast.Not(), node.test)
        case ast.Return(value=value) if value is not None and not (isinstance(value, ast.Constant) and not value.value):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Slice(lower=lower, upper=upper):
            yield from ((end, _plus(end, by)) for end, by in ((lower, 1), (upper, -1)) if end is not None)
        case ast.Call(args=[first, second, *rest]) if not any(isinstance(a, ast.Starred) for a in (first, second)):
            yield _with(node, args=[second, first, *rest])


def _code_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one that are neither types nor texts; of a function that is nested, its body only."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        children: list[ast.AST] = node.body if isinstance(node.body, list) else [node.body]
    elif isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value is not None else []
    elif isinstance(node, ast.JoinedStr | ast.Raise | ast.ClassDef):  # places in texts are not reliable
        children = []
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield child
        yield from _code_nodes(child)


def mutations(root: Path, file: Path) -> Iterator[Mutation]:
    """Yield every change of the functions in a file."""
    source = file.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    functions = [
        each
        for holder in ast.walk(tree)
        if isinstance(holder, ast.Module | ast.ClassDef)
        for each in holder.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for function in functions:
        for node in _code_nodes(function):
            for change in changes(node):
                old, new = change if isinstance(change, tuple) else (node, change)
                text = ast.unparse(ast.fix_missing_locations(new))
                start, end = (starts[n - 1] + at for n, at in _places(old))
                before = source[start:end].decode()
                if "\n" in text:  # of a block only its condition is replaced
                    continue
                text = f"({text})" if isinstance(old, ast.expr) else text
                yield Mutation(file.relative_to(root).as_posix(), old.lineno, start, end, text, before)


def _places(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def mutated(source: bytes, mutation: Mutation) -> bytes:
    return source[: mutation.start] + mutation.text.encode() + source[mutation.end :]


def _compiles(root: Path, mutation: Mutation) -> bool:
    try:
        compile(mutated((root / mutation.file).read_bytes(), mutation), mutation.file, "exec")
    except SyntaxError:
        return False
    return True


def draw(root: Path, seed: int, n: int) -> list[Mutation]:
    """Draw lines of the package uniformly, and one change of each."""
    package = root / "src" / "mahala"
    lines: dict[tuple[str, int], list[Mutation]] = {}
    for file in sorted(package.rglob("*.py")):
        if EXCLUDED.isdisjoint(file.relative_to(package).with_suffix("").parts):
            for mutation in mutations(root, file):
                lines.setdefault((mutation.file, mutation.line), []).append(mutation)
    rng = random.Random(seed)
    drawn = []
    for line in rng.sample(sorted(lines), len(lines)):
        choices = [mutation for mutation in lines[line] if _compiles(root, mutation)]
        if choices:
            drawn.append(rng.choice(choices))
        if len(drawn) == n:
            break
    return drawn


# Running tests


def tests_of(root: Path, file: str) -> list[list[Path]]:
    """Return the files of tests for a file, in stages: that of its name, those of its folder, the contract."""
    parts = Path(file).relative_to("src/mahala").with_suffix("").parts
    tests = root / "tests"
    folder = tests.joinpath(*parts[:-1])
    while not folder.is_dir():
        folder = folder.parent
    top = tests / parts[0]
    near = sorted(folder.rglob("test_*.py")) if folder != tests else []
    same_name = sorted(tests.rglob(f"test_{parts[-1]}.py"), key=lambda path: (folder not in path.parents, path))
    rest = sorted(top.rglob("test_*.py")) if top.is_dir() else []
    folder_files = [path for path in dict.fromkeys([*near, *rest]) if path not in same_name[:1]]
    return list(filter(None, (same_name[:1], folder_files, sorted((tests / "contract").glob("test_*.py")))))


class Workspace:
    """A copy of a tree in which one mutant at a time is tried, with its cache of compiled kernels."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.root, self.cache, self.folder = folder / "tree", folder / "cache", folder
        shutil.rmtree(self.root, ignore_errors=True)  # a run that was killed has left its mutant there
        shutil.copytree(source, self.root, ignore=IGNORED)
        self.cache.mkdir(exist_ok=True)
        (folder / "mutant_plugin.py").write_text(PLUGIN)

    def pytest(
        self, files: list[Path], cpu: float, *options: str, broken: Any = (), cache: Path | None = None
    ) -> tuple[int | None, float, list[list[Any]]]:
        """Run tests; return the exit code, None if the time was up, the CPU seconds, and the log of the plugin."""
        log = self.folder / "log"
        log.write_text("")
        names = dict.fromkeys(str(file).split("::")[0] for file in files)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, (self.root / "src", self.root, self.folder))),
            "NUMBA_CACHE_DIR": str(cache or self.cache),
            "MUTANT_FILES": json.dumps(list(names)),
            "MUTANT_BROKEN": json.dumps(sorted(broken)),
            "MUTANT_LOG": str(log),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutant_plugin", "-p", "no:cacheprovider", *options]
        with open(self.folder / "output", "w") as output:
            process = subprocess.Popen(
                [*command, *map(str, files)],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            begin, used = time.monotonic(), 0.0
            while process.poll() is None:
                time.sleep(0.2)
                used = max(used, _cpu_seconds(process.pid))
                if used > cpu or time.monotonic() - begin > WALL_PER_CPU * cpu:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    _end_services(log)
                    return None, used, _read_log(log)
        return process.returncode, used, _read_log(log)

    def try_mutant(self, mutation: Mutation, cpu: float, broken: set[str]) -> dict[str, Any]:
        """Run the tests of a mutant; tests that fail on the source as it is are added to those known as broken."""
        file = self.root / mutation.file
        source, status = file.read_bytes(), file.stat()
        cache = self._without_stale_code(mutation.file)
        try:
            file.write_bytes(mutated(source, mutation))
            stages, total = tests_of(self.root, mutation.file), 0.0
            while stages:
                code, used, log = self.pytest(stages[0], cpu - total, "-x", broken=broken, cache=cache)
                test = log[-1][1] if log else ""
                if code is None:
                    spent = used - log[-1][2] if log else used
                    return {"outcome": "out of time", "test": test, "spent": spent, "cpu": total + used}
                if code in (0, 5):  # all passed, or all of them are known as broken
                    total += used
                    del stages[0]
                    continue
                if not test:  # it cannot be imported
                    return {"outcome": "found", "test": "import", "cpu": total + used}
                self._restore(file, source, status)
                if self._passes(test, cpu):
                    return {"outcome": "found", "test": test, "cpu": total + used}
                broken.add(test)
                file.write_bytes(mutated(source, mutation))
            return {"outcome": "survived", "test": "", "cpu": total}
        finally:
            self._restore(file, source, status)
            if cache != self.cache:
                shutil.rmtree(cache, ignore_errors=True)

    def takes(self, test: str) -> float:
        """Return the CPU seconds that a test takes on the source as it is, the start of pytest included."""
        return self.pytest([self.root / test], 600.0)[1]

    def _passes(self, test: str, cpu: float) -> bool:
        return self.pytest([self.root / test], 4 * cpu)[0] == 0

    @staticmethod
    def _restore(file: Path, source: bytes, status: os.stat_result) -> None:
        """Write a file as it was; Numba's cache compares its time, too."""
        file.write_bytes(source)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _without_stale_code(self, file: str) -> Path:
        """Return the cache for a mutant of a file: Numba does not notice changes in files that a kernel calls."""
        if not file.startswith("src/mahala/compiled/"):
            return self.cache
        changed = {Path(file).with_suffix("").relative_to("src").as_posix().replace("/", ".")}
        users = _imports_of_kernels(self.root)
        while grown := {name for name, imported in users.items() if imported & changed} - changed:
            changed |= grown
        stems = {name.split(".")[-1] for name in changed}
        cache = Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copytree(
            self.cache,
            cache,
            copy_function=os.link,  # Numba replaces files and never writes into them
            dirs_exist_ok=True,
            ignore=lambda _, names: [name for name in names if name.split(".")[0] in stems and "." in name],
        )
        return cache


def _imports_of_kernels(root: Path) -> dict[str, set[str]]:
    """Return the modules that each module of compiled/ imports."""
    imports = {}
    for path in (root / "src/mahala/compiled").rglob("*.py"):
        name = path.relative_to(root / "src").with_suffix("").as_posix().replace("/", ".")
        nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.ImportFrom)]
        modules = {node.module or "" for node in nodes}
        modules |= {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
        imports[name] = modules
    return imports


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _end_services(log: Path) -> None:
    """End what a killed run has left in sessions of their own, such as a database; they have its environment."""
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MUTANT_LOG={log}".encode() in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGTERM)
        except OSError:  # it has ended, or is another user's
            pass


def _read_log(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("]")]


# The whole


def measure(workspace: Workspace, mutation: Mutation, cpu: float, broken: set[str]) -> dict[str, Any]:
    result = workspace.try_mutant(mutation, cpu, broken)
    # A test that takes most of the minute, and little time on the source as it is, does not end.
    stuck = result["outcome"] == "out of time" and result["spent"] > cpu / 2 and bool(result["test"])
    if stuck and workspace.takes(result["test"]) < cpu / 6:
        result["outcome"] = "hangs"
    return asdict(mutation) | result


def folder_of(result: dict[str, Any]) -> str:
    parts = result["file"].split("/")[2:]
    return parts[0] if len(parts) > 1 else "top"


def report(results: list[dict[str, Any]]) -> str:
    """Return the share that was found, by folder, and what was not found."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        for name in (folder_of(result), "all"):
            counts.setdefault(name, Counter())[result["outcome"]] += 1
    lines = [f"{'folder':<12}{'mutants':>8}" + "".join(f"{name:>13}" for name in OUTCOMES) + f"{'share found':>13}"]
    for name in sorted(counts, key=lambda each: (each == "all", each)):
        count = counts[name]
        share = f"{count['found'] / count.total():.0%}"
        lines.append(f"{name:<12}{count.total():>8}" + "".join(f"{count[o]:>13}" for o in OUTCOMES) + f"{share:>13}")
    for result in results:
        if result["outcome"] != "found":
            lines.append(
                f"{result['outcome']}: {result['file']}:{result['line']}: {result['before']} -> {result['text']}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path(), help="root of the tree whose tests are measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=80, help="number of mutants")
    parser.add_argument("--cpu", type=float, default=60.0, help="CPU seconds for each of them")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, help="file for the results, from which a stopped run resumes")
    parser.add_argument(
        "--work", type=Path, help="folder for the copies and their caches; a temporary one if not given"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    options = parser.parse_args()
    source = options.source.resolve()
    drawn = draw(source, options.seed, options.n)
    if options.list:
        for mutation in drawn:
            print(f"{mutation.file}:{mutation.line}: {mutation.before} -> {mutation.text}")
        return
    state: dict[str, Any] = {"seed": options.seed, "cpu": options.cpu, "broken": [], "results": {}}
    if options.output and options.output.exists():
        state = json.loads(options.output.read_text())
    broken = set(state["broken"])

    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        spare: SimpleQueue[Workspace] = SimpleQueue()
        for job in range(options.jobs):
            folder = (options.work or Path(temporary)).resolve() / str(job)
            folder.mkdir(parents=True, exist_ok=True)
            spare.put(Workspace(source, folder))

        def warm(workspace: Workspace) -> None:
            """Compile the kernels, and find the tests that fail on the source as it is."""
            done = workspace.folder / "warm"
            if not done.exists():
                files = [*(workspace.root / "tests/compiled").rglob("test_*.py")]
                files += sorted((workspace.root / "tests/contract").glob("test_*.py"))
                _, _, log = workspace.pytest(files, 3600.0)
                broken.update(test for what, test, _ in log if what == "failed")
                done.touch()

        def run(number: int) -> None:
            workspace = spare.get()
            try:
                warm(workspace)
                result = measure(workspace, drawn[number], options.cpu, broken)
            finally:
                spare.put(workspace)
            state["results"][str(number)] = result
            state["broken"] = sorted(broken)
            if options.output:
                part = options.output.with_suffix(".part")
                part.write_text(json.dumps(state, indent=1))
                part.replace(options.output)
            place = f"{result['file']}:{result['line']}"
            print(f"{number}: {result['outcome']} ({result['cpu']:.0f} s): {place} {result['test']}", flush=True)

        with ThreadPoolExecutor(options.jobs) as executor:
            list(executor.map(run, [n for n in range(len(drawn)) if str(n) not in state["results"]]))
    print(report([state["results"][str(number)] for number in range(len(drawn))]))


if __name__ == "__main__":
    main()
