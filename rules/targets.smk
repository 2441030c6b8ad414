# Targets with names: an experiment (fedcorr), one of its tables or figures (fedcorr_table2).
for target, files in TARGETS.items():

    rule:
        name:
            target
        input:
            files,
