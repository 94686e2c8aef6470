"""The command line: verbs parse their arguments, call the library and print what it returns."""
