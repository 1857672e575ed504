# What HTML reports of other packages share with those of mahala, loaded on first use.
from mahala.report.page import page as page  # the whole page
from mahala.report.page import header as header  # title and verdict
from mahala.report.page import Section as Section  # a heading and what is below it
from mahala.report.page import chart as chart  # a place for a chart
from mahala.report.page import table as table  # rows of cells
from mahala.report.page import facts as facts  # names and values
from mahala.report.page import code as code  # commands to copy

__all__: list[str]
