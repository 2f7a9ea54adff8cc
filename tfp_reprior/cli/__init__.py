"""The command line: flags and printing. Nothing here needs TensorFlow to be imported."""
