"""The command line: one file a command, no logic. stdout is data, stderr is talk."""
