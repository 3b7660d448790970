"""The command line: one file per command, no logic. stdout is for data, stderr for messages.

main.py      load the command; print an error as one sentence and a hint
options.py   options that several commands share
bar.py       a progress bar on stderr
run.py       `holdfast run`
jobs.py      `holdfast jobs`
inspect.py   `holdfast inspect`
state.py     `holdfast state`
diagnose.py  `holdfast diagnose`
check.py     `holdfast check`
explain.py   `holdfast explain`
demo.py      `holdfast demo`
"""
