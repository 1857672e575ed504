"""What a package that is built on mahala may import beside the public names; it stays within a minor version.

The stub beside this file lists the names, with what each is for. `mahala.extend.commands` has what a command of the
command line needs.
"""

from mahala import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
