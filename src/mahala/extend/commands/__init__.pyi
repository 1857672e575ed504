# What commands of other packages share with those of mahala, loaded on first use.

# Options
from mahala.cli.group import Command as Command  # the class of a command within an app
from mahala.cli.parts.options import Force as Force  # --force, to replace files
from mahala.cli.parts.options import Settings as Settings  # --set NAME=VALUE, a parameter of an estimator
from mahala.cli.parts.models import configured as configured  # an estimator with the values of --set
from mahala.cli.parts.options import check_output as check_output  # a path to write to, before a long computation

# Input
from mahala.cli.parts.models import load_metric as load_metric  # the metric of a model file

# Output
from mahala.cli.parts.output import Json as Json  # --json
from mahala.cli.parts.output import show as show  # the result of a command, as JSON or text
from mahala.cli.parts.output import say as say  # a line of text
from mahala.cli.parts.output import fact_grid as fact_grid  # names in bold, and what is said of them
from mahala.cli.parts.output import table as table  # a table to add rows to
from mahala.cli.parts.output import write_files as write_files  # all or none
from mahala.support.display import task_bar as task_bar  # a progress bar

__all__: list[str]
