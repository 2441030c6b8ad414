# The report's front page. The report itself: snakemake --report results/quick/report.html
report: "../workflow/report/front.rst"
