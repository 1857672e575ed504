"""`mahala warm-up`: compile ahead what learners and commands would compile on first use."""

import sys

from mahala.cli.output import Json, show


def warm_up(as_json: Json = False) -> None:
    """Compile all functions ahead, once per installation and processor.

    Without it, the first use of each learner compiles what it needs, for some seconds. It takes minutes the first time
    and seconds when there is nothing left to do. The machine code is in Numba's cache: in the folder that
    NUMBA_CACHE_DIR names, else in the package's if it can be written to, else in the home folder's.

    Examples:

        mahala warm-up
    """
    from mahala.support.contexts import COMPILING
    from mahala.support.display import task_bar
    from mahala.warming import warm_up as compile_ahead

    with task_bar("Compiling", sys.stderr.isatty()) as update:
        n = compile_ahead(update)
    done = f"{n} functions compiled in {COMPILING.seconds:.0f} s"
    facts = {"compiled": n, "seconds": COMPILING.seconds}
    show(facts, as_json, done if n else "nothing to compile: all functions are in the cache")
