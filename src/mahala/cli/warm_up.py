"""`mahala warm-up`: compile ahead what learners and commands would compile on first use."""

import sys

from mahala.cli.output import Json, show


def warm_up(as_json: Json = False) -> None:
    """Compile all functions ahead, once per installation and processor.

    Without it, the first use of each learner takes some seconds to compile what it needs. The first run takes minutes,
    later ones take seconds. The machine code is in Numba's cache: the folder that NUMBA_CACHE_DIR names, or else the
    folder of the package if it is writable, or else one in the home folder.

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
